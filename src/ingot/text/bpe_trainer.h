#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/text/tokenizer.h"

namespace ingot::text {

struct BpeTrainerConfig {
  /// Ids in all: special tokens, 256 bytes, merges. Text with too few different pairs gives fewer.
  std::int32_t vocab_size = 8192;
  /// A pair seen less often is not merged. 0 and 1 both mean: every pair that occurs.
  std::int64_t min_frequency = 2;
  /// Take the first ids, in this order. The first one is also named as bos, eos and unk token.
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  /// Longest token, in bytes; none when not set.
  std::optional<std::int32_t> max_token_length;
  /// The pre-tokenizer's pattern; empty: GPT-2's.
  std::string pattern;
  /// Called now and then with the number of ids so far and vocab_size.
  std::function<void(std::int32_t, std::int32_t)> progress;

  /// Throws InvalidConfig.
  void validate() const;
};

/// Trains a byte-level BPE tokenizer. Of pairs that are equally frequent the one with the smaller ids is
/// merged first, so the result depends on the texts alone and equals that of `tokenizers`' BpeTrainer. Texts
/// are separate: no pair spans two. Bytes that are not UTF-8 are allowed.
Tokenizer train_bpe(const BpeTrainerConfig& config, std::span<const std::string_view> texts);
Tokenizer train_bpe(const BpeTrainerConfig& config, std::string_view text);

}  // namespace ingot::text
