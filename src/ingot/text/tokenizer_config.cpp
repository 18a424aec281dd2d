#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/text/json_view.h"
#include "ingot/text/tokenizer_spec.h"

namespace ingot::text {

namespace {

using nlohmann::ordered_json;

/// A token is a string, or an object like an entry of added_tokens.
std::string token_text(const JsonView& config, std::string_view key) {
  if (!config.has(key)) return {};
  const JsonView value = config.at(key);
  return value.is_string() ? value.string() : value.string("content");
}

}  // namespace

TokenizerConfig parse_tokenizer_config(std::string_view text, const std::string& source) {
  const JsonDocument document(text, source, "");
  const JsonView view = document.root();
  TokenizerConfig config;
  config.bos_token = token_text(view, "bos_token");
  config.eos_token = token_text(view, "eos_token");
  config.unk_token = token_text(view, "unk_token");
  config.pad_token = token_text(view, "pad_token");
  if (view.has("chat_template") && view.at("chat_template").is_string())
    config.chat_template = view.string("chat_template");
  if (view.has("model_max_length")) {
    // "No limit" is written as 1e30, in digits.
    const double length = view.at("model_max_length").number();
    if (length > 0 && length < 1e15) config.model_max_length = std::llround(length);
  }
  return config;
}

std::string write_tokenizer_config(const TokenizerSpec& spec) {
  ordered_json out;
  const TokenizerConfig& config = spec.config;
  ordered_json& added = out["added_tokens_decoder"] = ordered_json::object();
  for (const AddedToken& t : spec.added_tokens)
    added[std::to_string(t.id)] = {{"content", t.content},         {"lstrip", t.lstrip},
                                   {"normalized", t.normalized},   {"rstrip", t.rstrip},
                                   {"single_word", t.single_word}, {"special", t.special}};
  const auto put = [&](const char* key, const std::string& token) {
    if (!token.empty()) out[key] = token;
  };
  put("bos_token", config.bos_token);
  put("eos_token", config.eos_token);
  put("unk_token", config.unk_token);
  put("pad_token", config.pad_token);
  put("chat_template", config.chat_template);
  out["clean_up_tokenization_spaces"] = false;
  if (config.model_max_length > 0) out["model_max_length"] = config.model_max_length;
  out["tokenizer_class"] = "PreTrainedTokenizerFast";
  return out.dump(2) + "\n";
}

}  // namespace ingot::text
