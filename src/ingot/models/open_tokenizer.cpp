#include "ingot/models/open_tokenizer.h"

#include <filesystem>

#include "ingot/base/error.h"
#include "ingot/text/tokenizer_spec.h"
#include "ingot/weights/gguf.h"

namespace ingot {

text::GgufVocabulary gguf_vocabulary(const GgufMetadata& metadata) {
  const auto key = [](const char* name) { return std::string("tokenizer.ggml.") + name; };
  text::GgufVocabulary v;
  v.model = metadata.text(key("model")).value_or("");
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
  v.add_bos = metadata.boolean(key("add_bos_token"));
  v.add_eos = metadata.boolean(key("add_eos_token"));
  v.add_space_prefix = metadata.boolean(key("add_space_prefix"));
  v.chat_template = metadata.text("tokenizer.chat_template").value_or("");
  return v;
}

bool has_tokenizer(const std::string& path) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(path)) {
    return !path.ends_with(".gguf") || open_gguf(path)->fields().find("tokenizer.ggml.model") != nullptr ||
           open_gguf(path)->fields().find("tokenizer.huggingface.json") != nullptr;
  }
  const auto holds = [&path](const char* name) { return fs::exists(fs::path(path) / name); };
  return holds("tokenizer.json") || holds("vocab.json") || holds("vocab.txt") || holds("tokenizer.model") ||
         holds("spiece.model");
}

text::Tokenizer open_tokenizer(const std::string& path) {
  if (std::filesystem::is_directory(path)) return text::Tokenizer::from_directory(path);
  if (!path.ends_with(".gguf")) return text::Tokenizer::from_file(path);
  const auto source = open_gguf(path);
  const text::GgufVocabulary vocabulary = gguf_vocabulary(source->fields());
  if (const auto json = source->fields().text("tokenizer.huggingface.json")) {  // the whole tokenizer.json
    text::TokenizerSpec spec = text::parse_tokenizer_json(*json, path);
    const auto named = [&vocabulary](std::optional<std::int64_t> id) {
      const bool listed = id && *id >= 0 && static_cast<std::size_t>(*id) < vocabulary.tokens.size();
      return listed ? vocabulary.tokens[static_cast<std::size_t>(*id)] : std::string();
    };
    spec.config.bos_token = named(vocabulary.bos);
    spec.config.eos_token = named(vocabulary.eos);
    spec.config.eot_token = named(vocabulary.eot);
    spec.config.eom_token = named(vocabulary.eom);
    spec.config.unk_token = named(vocabulary.unk);
    spec.config.pad_token = named(vocabulary.pad);
    spec.config.chat_template = vocabulary.chat_template;
    return text::Tokenizer(std::move(spec));
  }
  INGOT_CHECK(!vocabulary.model.empty(),
              FormatError(path, -1, "tokenizer.ggml.model", "is missing: the file holds no tokenizer"));
  return text::Tokenizer(text::make_gguf_tokenizer(vocabulary, path));
}

}  // namespace ingot
