#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/text/added_tokens.h"
#include "ingot/text/model.h"
#include "ingot/text/tokenizer.h"

namespace ingot::text {

class JsonView;

/// What a tokenizer is made from, wherever it was read. The stages are kept as the JSON text of their object
/// in tokenizer.json ("null" for none), which is also how they are saved.
struct TokenizerSpec {
  std::string source = "tokenizer";  ///< names the file in errors
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string post_processor = "null";
  std::string decoder = "null";
  std::string truncation = "null";  ///< kept, not applied: the caller decides about lengths
  std::string padding = "null";
  std::vector<AddedToken> added_tokens;
  std::shared_ptr<const Model> model;
  TokenizerConfig config;
};

/// Parses tokenizer.json. `text` may be any bytes; `source` names it in errors.
TokenizerSpec parse_tokenizer_json(std::string_view text, const std::string& source);
/// Reads whatever files of a tokenizer the directory holds.
TokenizerSpec read_tokenizer_directory(const std::filesystem::path& directory);
std::string write_tokenizer_json(const TokenizerSpec& spec);

/// GPT-2's older pair of files: vocab.json and merges.txt.
TokenizerSpec read_gpt2_files(const std::filesystem::path& vocab, const std::filesystem::path& merges);
/// BERT's vocab.txt: one token per line, the line number is the id. `lowercase` and the like stand in
/// tokenizer_config.json (null: there is none), whose defaults are those of the uncased models.
TokenizerSpec read_vocab_txt(const std::filesystem::path& path, const JsonView* config);
/// The tokenizer of a Keras-Hub preset, whose tokenizer.json names a class and whose vocabulary lies in
/// assets/tokenizer beside it; none where `json`, which `source` holds, is not such a file.
std::optional<TokenizerSpec> read_keras_tokenizer(std::string_view json, const std::string& source);
/// An entry of added_tokens or added_tokens_decoder, but for its id.
AddedToken read_added_token(const JsonView& entry);
/// Adds the tokens that files list beside the vocabulary: added_tokens_decoder, additional_special_tokens and
/// extra_special_tokens of tokenizer_config.json (`config`) and added_tokens.json (`added`); null: there is
/// none. Tokens that are added already stay as they are. A token without an id gets the vocabulary's, or the
/// next one behind all others.
void add_listed_tokens(TokenizerSpec& spec, const JsonView* config, const JsonView* added);
/// Makes a token of the vocabulary a special one, where only older files list it; no token but these changes.
void mark_special(TokenizerSpec& spec, const std::string& token);
/// SentencePiece models say nothing about <s> and </s>; the class of the tokenizer (`kind`, "LlamaTokenizer")
/// and the flags of tokenizer_config.json do. FormatError for classes that number the pieces otherwise.
void add_sentencepiece_template(TokenizerSpec& spec, const std::string& kind, const JsonView* config);
/// A post-processor that puts <s> before and </s> behind a text; an empty name leaves that out.
std::string bos_eos_template(const TokenizerSpec& spec, const std::string& bos, const std::string& eos);
/// { token: id, ... }
Vocabulary parse_vocab_json(std::string_view text, const std::string& source);

/// Takes over the fields of tokenizer_config.json that Ingot uses; what the file does not set stays.
void merge_tokenizer_config(TokenizerConfig& config, const JsonView& file);
std::string write_tokenizer_config(const TokenizerSpec& spec);

}  // namespace ingot::text
