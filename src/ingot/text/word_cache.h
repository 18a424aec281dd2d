#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "ingot/text/hash.h"

namespace ingot::text {

/// The ids of words seen lately, by their bytes: direct-mapped, 16k entries of one cache line (1 MB, made at
/// the first insertion). Words over 30 bytes or 8 ids are rare and are not kept.
class WordCache {
 public:
  static constexpr std::size_t kMaxBytes = 30, kMaxIds = 8;

  /// The ids of `word`, or an empty span. `slot` is for put().
  std::span<const std::int32_t> get(std::string_view word, std::size_t& slot) const {
    slot = hash_bytes(word) & (kEntries - 1);
    if (entries_ == nullptr || word.size() > kMaxBytes) return {};
    const Entry& entry = entries_[slot];
    if (entry.length != word.size() || std::memcmp(entry.word.data(), word.data(), word.size()) != 0)
      return {};
    return {entry.ids.data(), entry.count};
  }

  void put(std::string_view word, std::size_t slot, std::span<const std::int32_t> ids) {
    if (word.size() > kMaxBytes || ids.size() > kMaxIds || ids.empty()) return;
    if (entries_ == nullptr) entries_ = std::make_unique<Entry[]>(kEntries);
    Entry& entry = entries_[slot];
    entry.length = static_cast<std::uint8_t>(word.size());
    entry.count = static_cast<std::uint8_t>(ids.size());
    std::memcpy(entry.word.data(), word.data(), word.size());
    std::memcpy(entry.ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  static constexpr std::size_t kEntries = 1U << 14;
  struct alignas(64) Entry {
    std::uint8_t length = 0, count = 0;
    std::array<char, kMaxBytes> word{};
    std::array<std::int32_t, kMaxIds> ids{};
  };
  static_assert(sizeof(Entry) == 64);

  std::unique_ptr<Entry[]> entries_;
};

}  // namespace ingot::text
