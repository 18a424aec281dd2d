#include "ingot/text/vocabulary.h"

#include <bit>

#include "ingot/base/error.h"
#include "ingot/text/hash.h"

namespace ingot::text {

void Vocabulary::reserve(std::size_t tokens, std::size_t bytes) {
  texts_.reserve(bytes);
  spans_.reserve(tokens);
  const std::size_t slots = std::bit_ceil(tokens * 2 + 2);
  if (slots > slots_.size()) rehash(slots);
}

void Vocabulary::rehash(std::size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  for (std::size_t id = 0; id < spans_.size(); ++id) {
    if (spans_[id].length == kAbsent) continue;
    const std::string_view text = text_of(static_cast<std::int32_t>(id));
    const std::uint64_t hash = hash_bytes(text);
    std::size_t i = hash & (slots - 1);
    while (slots_[i].id >= 0 && text_of(slots_[i].id) != text)
      i = (i + 1) & (slots - 1);  // a later id takes over
    slots_[i] = {static_cast<std::uint32_t>(hash >> 32), static_cast<std::int32_t>(id)};
  }
}

void Vocabulary::set_text(std::string_view text, std::int32_t id) {
  INGOT_CHECK(texts_.size() + text.size() < kAbsent, Error("a vocabulary holds at most 4 GB of token text"));
  if (static_cast<std::size_t>(id) >= spans_.size()) spans_.resize(static_cast<std::size_t>(id) + 1);
  spans_[static_cast<std::size_t>(id)] = {static_cast<std::uint32_t>(texts_.size()),
                                          static_cast<std::uint32_t>(text.size())};
  texts_.append(text);
  ++size_;
}

void Vocabulary::add_again(std::string_view text, std::int32_t id) {
  const std::uint64_t hash = hash_bytes(text);
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t i = hash & (slots_.size() - 1); slots_[i].id >= 0; i = (i + 1) & (slots_.size() - 1))
    if (slots_[i].tag == tag && text_of(slots_[i].id) == text) slots_[i].id = id;
  set_text(text, id);
}

Vocabulary::Added Vocabulary::add(std::string_view text, std::int32_t id) {
  INGOT_ASSERT(id >= 0);
  if (contains(id)) return Added::id_exists;
  if (static_cast<std::size_t>(size_) * 2 + 2 > slots_.size())
    rehash(std::bit_ceil(static_cast<std::size_t>(size_) * 4 + 16));
  const std::uint64_t hash = hash_bytes(text);
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  std::size_t i = hash & (slots_.size() - 1);
  for (; slots_[i].id >= 0; i = (i + 1) & (slots_.size() - 1))
    if (slots_[i].tag == tag && text_of(slots_[i].id) == text) return Added::token_exists;
  slots_[i] = {tag, id};
  set_text(text, id);
  return Added::yes;
}

std::int32_t Vocabulary::find(std::string_view text) const {
  if (slots_.empty()) return -1;
  const std::uint64_t hash = hash_bytes(text);
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t i = hash & (slots_.size() - 1); slots_[i].id >= 0; i = (i + 1) & (slots_.size() - 1))
    if (slots_[i].tag == tag && text_of(slots_[i].id) == text) return slots_[i].id;
  return -1;
}

bool Vocabulary::contains(std::int32_t id) const {
  return id >= 0 && id < id_limit() && spans_[static_cast<std::size_t>(id)].length != kAbsent;
}

std::string_view Vocabulary::token(std::int32_t id) const {
  return contains(id) ? text_of(id) : std::string_view();
}

}  // namespace ingot::text
