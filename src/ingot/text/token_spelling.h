#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/text/tokenizer.h"

namespace ingot::text {

/// What the tokens of a vocabulary stand for in a text: which token ends where. Immutable.
class TokenSpelling {
 public:
  explicit TokenSpelling(const Tokenizer& tokenizer);

  /// What a token writes in the middle of a text, in bytes; empty for an id without one.
  std::string_view word(std::int32_t id) const { return words_[static_cast<std::size_t>(id)]; }

  /// For each of `ids`, which are tokenizer.encode(text) without special tokens: the byte of `text` behind
  /// it. White space that an added token swallows belongs to it. Empty where the tokens do not spell the text
  /// (a normalizer changed it).
  std::vector<std::size_t> ends(std::string_view text, std::span<const std::int32_t> ids) const;

 private:
  std::vector<std::string> words_;  // by id
  std::vector<bool> added_;
};

}  // namespace ingot::text
