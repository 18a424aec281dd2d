#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/text/added_tokens.h"

namespace ingot::text {

struct TokenizerSpec;

struct EncodeOptions {
  /// Let the post-processor add what the model expects around a text ([CLS], <s>, ...).
  bool add_special_tokens = true;
  /// Treat special tokens written in the text as plain text: for text from people one does not trust.
  bool split_special_tokens = false;
  /// Of a pair: tokens that both may have, special ones included; the longer text loses its last tokens, as
  /// with "longest_first" of transformers. 0: no limit.
  std::int64_t max_pair_length = 0;
};

/// The named tokens and settings that tokenizer_config.json adds to tokenizer.json. Empty: not set.
struct TokenizerConfig {
  std::string bos_token, eos_token, unk_token, pad_token;
  std::string eot_token, eom_token;  ///< end of a turn, and of a message
  std::string chat_template;
  std::int64_t model_max_length = 0;  ///< in tokens; 0: no limit is known
};

/// Ids with the number of the text (0 or 1) that each belongs to, as BERT's segment embedding wants it.
struct Encoding {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> type_ids;
};

/// A tokenizer as described by tokenizer.json (Hugging Face `tokenizers`), giving the ids that library gives.
/// A handle to something immutable: copies are cheap and threads may share it.
class Tokenizer {
 public:
  explicit Tokenizer(TokenizerSpec spec);

  /// Reads tokenizer.json. Throws IoError, or FormatError naming the file and the field.
  static Tokenizer from_file(const std::filesystem::path& path);
  /// Reads tokenizer.json, or the older files of its family, and tokenizer_config.json where there is one.
  static Tokenizer from_directory(const std::filesystem::path& directory);
  /// `source` names the text in errors.
  static Tokenizer from_json(std::string_view json, const std::string& source = "tokenizer.json");

  /// The ids of `text`. Bytes that are not UTF-8 are kept by byte-level tokenizers and become U+FFFD in
  /// others.
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// Two texts as one input (question and passage, say), merged by the post-processor.
  Encoding encode_pair(std::string_view first, std::string_view second,
                       const EncodeOptions& options = {}) const;
  /// One result per text, on all threads.
  std::vector<std::vector<std::int32_t>> encode_batch(std::span<const std::string_view> texts,
                                                      const EncodeOptions& options = {}) const;

  /// The text of `ids`, always valid UTF-8: what is not a character becomes U+FFFD. Ids without a token count
  /// as nothing, as in the library.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = true) const;
  /// The same before the replacement: exactly the bytes that a byte-level tokenizer was given.
  std::string decode_bytes(std::span<const std::int32_t> ids, bool skip_special_tokens = true) const;

  /// Whether the bytes of a token never depend on its neighbours (true for byte-level tokenizers).
  bool decodes_token_wise() const;

  /// Number of ids from 0 to the largest one, added tokens included: rows of an embedding.
  std::int32_t vocab_size() const;
  std::optional<std::int32_t> token_to_id(std::string_view token) const;
  /// The token as written in the vocabulary; empty for an id without one.
  std::string_view id_to_token(std::int32_t id) const;
  bool is_special(std::int32_t id) const;
  const std::vector<AddedToken>& added_tokens() const;

  const TokenizerConfig& config() const;
  /// The ids of the tokens that config() names, where it names any.
  std::optional<std::int32_t> bos_id() const, eos_id() const, unk_id() const, pad_id() const;

  /// The same tokenizer with more tokens, which are looked for in the text itself, and whose ids follow the
  /// last one. Those that it has stay as they are. `special`: of each, whether decoding leaves it out on
  /// request.
  Tokenizer with_tokens(std::span<const std::pair<std::string, bool>> tokens) const;
  /// The same tokenizer with other names and settings.
  Tokenizer with_config(TokenizerConfig config) const;

  std::string to_json() const;
  /// Writes tokenizer.json.
  void save(const std::filesystem::path& path) const;
  /// Writes tokenizer.json and tokenizer_config.json into `directory`, which is made if need be.
  void save_directory(const std::filesystem::path& directory) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace ingot::text
