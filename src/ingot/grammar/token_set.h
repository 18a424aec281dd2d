#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::grammar {

/// One bit for each token of a vocabulary.
class TokenMask {
 public:
  explicit TokenMask(std::int32_t vocab_size)
      : size_(vocab_size), words_((static_cast<std::size_t>(vocab_size) + 63) / 64) {}

  std::int32_t size() const { return size_; }
  std::span<const std::uint64_t> words() const { return words_; }
  std::span<std::uint64_t> words() { return words_; }
  void clear() { std::ranges::fill(words_, 0); }
  void add(std::int32_t id) { words_[word(id)] |= std::uint64_t{1} << (static_cast<std::uint32_t>(id) % 64); }
  /// False for ids beyond the vocabulary.
  bool has(std::int32_t id) const {
    return id >= 0 && id < size_ && ((words_[word(id)] >> (static_cast<std::uint32_t>(id) % 64)) & 1U) != 0;
  }
  bool any() const {
    return std::ranges::any_of(words_, [](std::uint64_t word) { return word != 0; });
  }
  std::int64_t count() const {
    std::int64_t total = 0;
    for (const std::uint64_t word : words_) total += __builtin_popcountll(word);
    return total;
  }

 private:
  static std::size_t word(std::int32_t id) { return static_cast<std::size_t>(id) / 64; }
  std::int32_t size_;
  std::vector<std::uint64_t> words_;
};

/// Tokens that a part of a grammar allows: a list while they are few, else bits.
struct TokenSet {
  std::vector<std::int32_t> few{};
  std::vector<std::uint64_t> many{};

  void add_to(TokenMask& mask) const {
    for (const std::int32_t id : few) mask.add(id);
    const auto words = mask.words();
    for (std::size_t i = 0; i < many.size(); ++i) words[i] |= many[i];
  }
};

/// The tokens of a mask.
inline TokenSet token_set(const TokenMask& mask) {
  if (mask.count() * 64 >= mask.size()) return {.many = {mask.words().begin(), mask.words().end()}};
  TokenSet set;
  for (std::size_t i = 0; i < mask.words().size(); ++i) {
    for (std::uint64_t word = mask.words()[i]; word != 0; word &= word - 1)
      set.few.push_back(static_cast<std::int32_t>(64 * i) + __builtin_ctzll(word));
  }
  return set;
}

}  // namespace ingot::grammar
