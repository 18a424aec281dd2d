#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ingot/base/files.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/param_source.h"

namespace ingot::test {

/// The tokens of a scripted model: special ones first, then one for each of these characters.
inline const std::vector<std::string> kScriptedSpecials{"<pad>", "<eos>", "<bos>", "<turn>", "<end>"};
inline constexpr std::string_view kScriptedCharacters =
    "abcdefghijklmnopqrstuvwxyz .!?\n{}[]\":,<>/_0123456789-";

inline std::int32_t scripted_id(char c) {
  return static_cast<std::int32_t>(kScriptedSpecials.size() + kScriptedCharacters.find(c));
}

/// Writes a model whose most probable next token is a function of the last one (`next`; of others it is "a"),
/// with a tokenizer of single characters and a chat template. Its end token is <eos>, by config.json; the
/// template puts <end> behind a turn. Returns the directory.
inline std::string write_scripted_model(const std::string& directory,
                                        const std::map<std::int32_t, std::int32_t>& next) {
  LanguageConfig config;
  config.model_type = "llama";
  apply_family(config);
  config.vocab_size = config.hidden_size = 64;
  config.intermediate_size = 32;
  config.num_hidden_layers = 1;
  config.num_attention_heads = config.num_key_value_heads = 4;
  config.max_position_embeddings = 256;
  config.tie_word_embeddings = false;
  config.bos_token_id = 2;
  config.eos_token_id = 1;
  InitSource init(1);
  LanguageModel model(config, init);
  auto weights = parameter_map(model);
  for (auto& [name, tensor] : weights) {
    std::vector<float> values(static_cast<std::size_t>(tensor.numel()), 0.0F);
    if (name.find("norm") != std::string::npos) values.assign(values.size(), 1.0F);
    for (std::int32_t id = 0; id < 64; ++id) {  // embeddings are one-hot, and no layer adds anything
      const auto found = next.find(id);
      const auto to = static_cast<std::size_t>(found != next.end() ? found->second : scripted_id('a'));
      if (name.find("embed_tokens") != std::string::npos) values[static_cast<std::size_t>(id) * 65] = 1.0F;
      if (name.find("lm_head") != std::string::npos) values[to * 64 + static_cast<std::size_t>(id)] = 1.0F;
    }
    tensor = Tensor::from(values, tensor.shape());
  }
  write_language_model(directory, config, weights);
  std::string vocabulary, added;
  for (std::size_t i = 0; i < kScriptedSpecials.size(); ++i) {
    const std::string token = "\"" + kScriptedSpecials[i] + "\"", id = std::to_string(i);
    vocabulary += (i > 0 ? "," : "") + token + ":" + id;
    added += (i > 0 ? "," : "") + std::string(R"({"id":)") + id + R"(,"content":)" + token +
             R"(,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true})";
  }
  for (const char c : kScriptedCharacters)
    vocabulary += ",\"" +
                  (c == '\n'  ? "\\n"
                   : c == '"' ? "\\\""
                              : std::string(1, c)) +
                  "\":" + std::to_string(scripted_id(c));
  write_file_atomically(
      directory + "/tokenizer.json",
      R"({"version":"1.0","added_tokens":[)" + added +
          R"(],"normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":{"type":"Fuse"},)"
          R"("model":{"type":"BPE","vocab":{)" +
          vocabulary + R"(},"merges":[]}})");
  write_file_atomically(directory + "/tokenizer_config.json", R"({"bos_token":"<bos>","eos_token":"<eos>"})");
  write_file_atomically(directory + "/chat_template.jinja",
                        "{{ bos_token }}{% for m in messages %}{{ '<turn>' + m.role + ' ' + m.content + "
                        "' <end>\\n' }}{% endfor %}{% if add_generation_prompt %}<turn>{% endif %}");
  return directory;
}

/// Such a script: each character of `text` is followed by the next, the last by `last`.
inline std::map<std::int32_t, std::int32_t> script(std::int32_t first, const std::string& text,
                                                   std::int32_t last) {
  std::map<std::int32_t, std::int32_t> next;
  for (const char c : text) {
    next[first] = scripted_id(c);
    first = scripted_id(c);
  }
  next[first] = last;
  return next;
}

}  // namespace ingot::test
