#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ingot/text/tokenizer_spec.h"

namespace ingot::text {

/// What a GGUF file says of its tokenizer: the values of the keys `tokenizer.ggml.*`, absent ones empty.
struct GgufVocabulary {
  /// "llama" (SentencePiece, scores), "gpt2" (byte-level BPE, merges), "bert" (WordPiece) or "t5" (unigram)
  std::string model;
  std::string pre;  ///< names the pre-tokenizer of byte-level BPE
  std::vector<std::string> tokens, merges;
  std::vector<float> scores;
  std::vector<std::int64_t> types;  ///< as SentencePiece numbers them
  std::optional<std::int64_t> bos, eos, eot, eom, unk, pad, sep;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
  std::optional<bool> lowercase, strip_accents;  ///< of BERT's normalizer
  std::string charsmap;                          ///< of a SentencePiece normalizer
  std::string chat_template;
};

/// What tells one pre-tokenizer from another.
struct GgufPreTokenizer {
  std::vector<std::string> patterns;  ///< of its Split stages
  bool byte_level = false;
  bool gpt2_pattern = false;  ///< the one that ByteLevel has built in
  bool digits = false;        ///< each digit alone
};
/// llama.cpp's name for it; nothing where there is none.
std::optional<std::string> gguf_pre_tokenizer_name(const GgufPreTokenizer& parts);

/// The tokenizer that Hugging Face's tokenizer.json of the same model describes. `source` names the file in
/// errors: FormatError for lists that do not belong together, NotImplemented for an unknown model or
/// pre-tokenizer, with the known ones.
TokenizerSpec make_gguf_tokenizer(const GgufVocabulary& vocabulary, const std::string& source);

}  // namespace ingot::text
