#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ingot/text/hash.h"

namespace ingot::text {

/// A pair of neighbouring token ids.
struct Pair {
  std::int32_t left;
  std::int32_t right;
  bool operator==(const Pair&) const = default;
  auto operator<=>(const Pair&) const = default;
};

/// A flat table from pairs of ids to `Value`. A merge table of 280k entries is one block of 8 MB: a look-up
/// costs one cache miss.
template <class Value>
class PairMap {
 public:
  void reserve(std::size_t n) {
    const std::size_t slots = std::bit_ceil(n + n / 2 + 2);
    if (slots > entries_.size()) rehash(slots);
  }

  /// The value of `pair`, made from `fresh` when there is none. Valid until the next insertion.
  Value& find_or_insert(Pair pair, const Value& fresh) {
    if ((size_ + 1) * 4 > entries_.size() * 3) rehash(std::bit_ceil(entries_.size() * 2 + 16));
    Entry& entry = entries_[slot_of(pair)];
    if (entry.pair.left < 0) {
      entry = {pair, fresh};
      ++size_;
    }
    return entry.value;
  }

  const Value* find(Pair pair) const {
    if (entries_.empty()) return nullptr;
    const Entry& entry = entries_[slot_of(pair)];
    return entry.pair.left < 0 ? nullptr : &entry.value;
  }
  Value* find(Pair pair) { return const_cast<Value*>(static_cast<const PairMap*>(this)->find(pair)); }

  std::size_t size() const { return size_; }

  /// visit(pair, value) for every entry, in no useful order.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Entry& entry : entries_)
      if (entry.pair.left >= 0) visit(entry.pair, entry.value);
  }

 private:
  struct Entry {
    Pair pair{-1, -1};
    Value value{};
  };

  std::size_t slot_of(Pair pair) const {
    const std::size_t mask = entries_.size() - 1;
    std::size_t i =
        hash_pair(static_cast<std::uint32_t>(pair.left), static_cast<std::uint32_t>(pair.right)) & mask;
    while (entries_[i].pair.left >= 0 && entries_[i].pair != pair) i = (i + 1) & mask;
    return i;
  }

  void rehash(std::size_t slots) {
    std::vector<Entry> old(slots);
    old.swap(entries_);
    for (const Entry& entry : old)
      if (entry.pair.left >= 0) entries_[slot_of(entry.pair)] = entry;
  }

  std::vector<Entry> entries_;
  std::size_t size_ = 0;
};

}  // namespace ingot::text
