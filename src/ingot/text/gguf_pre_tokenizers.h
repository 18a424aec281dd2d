#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::text {

/// What llama.cpp's names of pre-tokenizers (tokenizer.ggml.pre) stand for. The patterns are those of the
/// models' own tokenizer.json files where these are known.
struct GgufPreTokenizers {
  std::vector<std::string_view> names;  ///< the first is the one written
  std::vector<std::string> patterns{};  ///< of Split stages, one after the other
  bool gpt2_pattern = false;            ///< and then the one that ByteLevel has built in
  bool digits = false;                  ///< each digit alone, first
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;
  bool pieces = false;  ///< SentencePiece's way: ▁ for spaces, bytes as <0xNN>, no ByteLevel
};
std::span<const GgufPreTokenizers> gguf_pre_tokenizers();

/// Null for an unknown name.
const GgufPreTokenizers* find_gguf_pre_tokenizer(std::string_view name);

}  // namespace ingot::text
