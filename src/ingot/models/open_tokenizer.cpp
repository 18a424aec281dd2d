#include "ingot/models/open_tokenizer.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/text/sentencepiece.h"
#include "ingot/text/tokenizer_spec.h"
#include "ingot/weights/gguf.h"

namespace ingot {

text::GgufVocabulary gguf_vocabulary(const GgufMetadata& metadata) {
  const auto key = [](const char* name) { return std::string("tokenizer.ggml.") + name; };
  text::GgufVocabulary v;
  v.model = metadata.text(key("model")).value_or("");
  if (v.model == "none" || v.model == "no_vocab") v.model.clear();  // llama.cpp's words for it
  v.pre = metadata.text(key("pre")).value_or("");
  if (const auto* tokens = metadata.texts(key("tokens"))) v.tokens = *tokens;
  if (const auto* merges = metadata.texts(key("merges"))) v.merges = *merges;
  if (const auto scores = metadata.numbers(key("scores"))) v.scores.assign(scores->begin(), scores->end());
  if (auto types = metadata.integers(key("token_type"))) v.types = std::move(*types);
  v.bos = metadata.integer(key("bos_token_id"));
  v.eos = metadata.integer(key("eos_token_id"));
  v.eot = metadata.integer(key("eot_token_id"));
  v.eom = metadata.integer(key("eom_token_id"));
  v.unk = metadata.integer(key("unknown_token_id"));
  v.pad = metadata.integer(key("padding_token_id"));
  v.sep = metadata.integer(key("seperator_token_id"));  // spelled so
  v.remove_extra_whitespaces = metadata.boolean(key("remove_extra_whitespaces"));
  v.lowercase = metadata.boolean(key("normalizer.lowercase"));
  v.strip_accents = metadata.boolean(key("normalizer.strip_accents"));
  if (const auto bytes = metadata.integers(key("precompiled_charsmap"))) {
    for (const std::int64_t byte : *bytes) v.charsmap.push_back(static_cast<char>(byte));
  }
  v.add_bos = metadata.boolean(key("add_bos_token"));
  v.add_eos = metadata.boolean(key("add_eos_token"));
  v.add_space_prefix = metadata.boolean(key("add_space_prefix"));
  v.chat_template = metadata.text("tokenizer.chat_template").value_or("");
  return v;
}

namespace {

std::string token_of(const text::GgufVocabulary& vocabulary, std::optional<std::int64_t> id) {
  const bool listed = id && *id >= 0 && static_cast<std::size_t>(*id) < vocabulary.tokens.size();
  return listed ? vocabulary.tokens[static_cast<std::size_t>(*id)] : std::string();
}

// What the file says of named tokens, where `config` does not.
void add_names(const text::GgufVocabulary& vocabulary, text::TokenizerConfig& config) {
  const auto set = [&](std::string& token, std::optional<std::int64_t> id) {
    if (token.empty()) token = token_of(vocabulary, id);
  };
  set(config.bos_token, vocabulary.bos);
  set(config.eos_token, vocabulary.eos);
  set(config.eot_token, vocabulary.eot);
  set(config.eom_token, vocabulary.eom);
  set(config.unk_token, vocabulary.unk);
  set(config.pad_token, vocabulary.pad);
  if (config.chat_template.empty()) config.chat_template = vocabulary.chat_template;
}

// The tokens up to the last one that the file names by its id, for files without a list of them.
std::vector<std::string> named_tokens(const text::Tokenizer& tokenizer,
                                      const text::GgufVocabulary& vocabulary) {
  std::vector<std::string> tokens;
  for (const auto id :
       {vocabulary.bos, vocabulary.eos, vocabulary.eot, vocabulary.eom, vocabulary.unk, vocabulary.pad}) {
    if (!id || *id < 0 || *id >= static_cast<std::int64_t>(tokenizer.vocab_size())) continue;
    tokens.resize(std::max(tokens.size(), static_cast<std::size_t>(*id) + 1));
    tokens[static_cast<std::size_t>(*id)] = tokenizer.id_to_token(static_cast<std::int32_t>(*id));
  }
  return tokens;
}

// A tokenizer that lies beside the file, but belongs to another model.
void check_same_tokens(const text::Tokenizer& tokenizer, const text::GgufVocabulary& vocabulary,
                       const std::string& directory, const std::string& path) {
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string_view beside = tokenizer.id_to_token(static_cast<std::int32_t>(id));
    const std::string& listed = vocabulary.tokens[id];
    const bool unused = id < vocabulary.types.size() && vocabulary.types[id] == text::SentencePiece::kUnused;
    INGOT_CHECK(beside == listed || beside.empty() || unused,
                FormatError(directory, -1, "tokenizer",
                            fmt::format("has \"{}\" for the id {}, {} has \"{}\"; it is another model's",
                                        beside, id, path, listed)));
  }
}

// The tokenizer of the folder that a file of a kind unknown to us lies in.
text::Tokenizer tokenizer_beside(const std::string& path, const text::GgufVocabulary& vocabulary) {
  const std::string directory = std::filesystem::absolute(path).parent_path().string();
  text::Tokenizer tokenizer = text::Tokenizer::from_directory(directory);
  check_same_tokens(tokenizer, vocabulary, directory, path);
  text::TokenizerConfig config = tokenizer.config();
  add_names(vocabulary, config);
  return tokenizer.with_config(std::move(config));
}

bool directory_has_tokenizer(const std::string& directory) {
  return std::ranges::any_of(
      std::array{"tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model", "spiece.model"},
      [&](const char* name) { return std::filesystem::exists(std::filesystem::path(directory) / name); });
}

}  // namespace

text::Tokenizer open_tokenizer(const std::string& path) {
  if (std::filesystem::is_directory(path)) return text::Tokenizer::from_directory(path);
  if (!path.ends_with(".gguf")) return text::Tokenizer::from_file(path);
  const auto source = open_gguf(path);
  text::GgufVocabulary vocabulary = gguf_vocabulary(source->fields());
  if (const auto json = source->fields().text("tokenizer.huggingface.json")) {  // the whole tokenizer.json
    const text::Tokenizer tokenizer(text::parse_tokenizer_json(*json, path));
    if (vocabulary.tokens.empty()) vocabulary.tokens = named_tokens(tokenizer, vocabulary);
    text::TokenizerConfig config = tokenizer.config();
    add_names(vocabulary, config);
    return tokenizer.with_config(std::move(config));
  }
  const bool beside = directory_has_tokenizer(std::filesystem::absolute(path).parent_path().string());
  if (vocabulary.model.empty() && beside) return tokenizer_beside(path, vocabulary);
  INGOT_CHECK(!vocabulary.model.empty(),
              FormatError(path, -1, "tokenizer.ggml.model",
                          "is missing: the file holds no tokenizer; put a tokenizer.json beside it"));
  try {
    return text::Tokenizer(text::make_gguf_tokenizer(vocabulary, path));
  } catch (const NotImplemented&) {
    if (!beside) throw;
  }
  return tokenizer_beside(path, vocabulary);
}

bool has_tokenizer(const std::string& path) {
  if (std::filesystem::is_directory(path)) return directory_has_tokenizer(path);
  if (!path.ends_with(".gguf")) return true;
  const auto source = open_gguf(path);
  return !gguf_vocabulary(source->fields()).model.empty() ||
         source->fields().find("tokenizer.huggingface.json") != nullptr;
}

}  // namespace ingot
