#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/text/json_view.h"
#include "ingot/text/tokenizer_spec.h"

namespace ingot::text {

namespace {

using nlohmann::ordered_json;

/// A token is a string, or an object like an entry of added_tokens.
std::string token_text(const JsonView& value) {
  return value.is_string() ? value.string() : value.string("content");
}

/// One template, or a list of named ones of which "default" is meant.
std::string default_template(const JsonView& value) {
  if (value.is_string()) return value.string();
  for (const JsonView& item : value.items())
    if (item.string("name") == "default") return item.string("template");
  return {};
}

}  // namespace

void merge_tokenizer_config(TokenizerConfig& config, const JsonView& file) {
  const auto take = [&](const char* key, std::string& token) {
    if (file.has(key)) token = token_text(file.at(key));
  };
  take("bos_token", config.bos_token);
  take("eos_token", config.eos_token);
  take("unk_token", config.unk_token);
  take("pad_token", config.pad_token);
  take("eot_token", config.eot_token);
  take("eom_token", config.eom_token);
  if (file.has("extra_special_tokens") && file.at("extra_special_tokens").is_object()) {
    const JsonView named = file.at("extra_special_tokens");
    if (named.has("eot_token")) config.eot_token = token_text(named.at("eot_token"));
    if (named.has("eom_token")) config.eom_token = token_text(named.at("eom_token"));
  }
  if (file.has("chat_template")) config.chat_template = default_template(file.at("chat_template"));
  if (file.has("model_max_length")) {
    // "No limit" is written as 1e30, in digits.
    const double length = file.at("model_max_length").number();
    if (length > 0 && length < 1e15) config.model_max_length = std::llround(length);
  }
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
  put("eot_token", config.eot_token);
  put("eom_token", config.eom_token);
  put("chat_template", config.chat_template);
  out["clean_up_tokenization_spaces"] = false;
  if (config.model_max_length > 0) out["model_max_length"] = config.model_max_length;
  out["tokenizer_class"] = "PreTrainedTokenizerFast";
  return dump_json(out, 2) + "\n";
}

}  // namespace ingot::text
