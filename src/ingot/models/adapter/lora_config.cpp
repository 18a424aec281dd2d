#include "ingot/models/adapter/lora_config.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/json_number.h"
#include "ingot/text/regex.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

bool matches_whole(const std::string& pattern, const std::string& name) {
  const text::Regex regex("\\A(?:" + pattern + ")\\z", "target_modules");
  bool found = false;
  regex.for_each_match(name, [&found](std::size_t, std::size_t) { found = true; });
  return found;
}

bool is_named(const std::string& module, const std::vector<std::string>& names) {
  return std::ranges::any_of(
      names, [&module](const std::string& name) { return module == name || module.ends_with("." + name); });
}

// PEFT's order: the first pattern that matches the end of the name.
template <class T>
T by_pattern(const std::map<std::string, T>& patterns, const std::string& module, T otherwise) {
  for (const auto& [pattern, value] : patterns) {
    const bool anchored = pattern.starts_with('^');
    if (matches_whole(anchored ? pattern.substr(1) : "(?:.*\\.)?(?:" + pattern + ")", module)) return value;
  }
  return otherwise;
}

// The number of the layer that a module is in; -1: in none.
std::int64_t layer_of(std::string_view module) {
  while (!module.empty()) {
    const std::size_t dot = module.find('.');
    const std::string_view part = module.substr(0, dot);
    if (part.size() < 10 && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; }))
      return std::stoll(std::string(part));
    module.remove_prefix(dot == std::string_view::npos ? module.size() : dot + 1);
  }
  return -1;
}

// One JSON object with PEFT's keys.
class Keys {
 public:
  Keys(const Json& json, const std::string& path) : json_(json), path_(path) {}

  template <class T>
  void read(const char* key, T& value) const {
    if (!has(key)) return;
    try {
      value = json_[key].get<T>();
    } catch (const nlohmann::json::exception&) {
      throw wrong_type(json_[key], key);
    }
  }
  void read(const char* key, std::int64_t& value) const {
    if (has(key)) value = whole(json_[key], key);
  }
  void read(const char* key, std::vector<std::int64_t>& values) const {
    if (!has(key)) return;
    if (!json_[key].is_array()) throw wrong_type(json_[key], key);
    for (const Json& value : json_[key]) values.push_back(whole(value, key));
  }
  void read(const char* key, std::map<std::string, std::vector<std::int64_t>>& lists) const {
    if (!has(key)) return;
    if (!json_[key].is_object()) throw wrong_type(json_[key], key);
    for (const auto& [name, list] : json_[key].items()) {
      if (!list.is_array()) throw wrong_type(list, key);
      for (const Json& value : list) lists[name].push_back(whole(value, key));
    }
  }
  void read(const char* key, std::map<std::string, std::int64_t>& values) const {
    if (!has(key)) return;
    if (!json_[key].is_object()) throw wrong_type(json_[key], key);
    for (const auto& [name, value] : json_[key].items()) values[name] = whole(value, key);
  }
  void read_names(const char* key, std::vector<std::string>& names) const {
    if (!has(key)) return;
    if (json_[key].is_string())
      names = {json_[key].get<std::string>()};
    else
      read(key, names);
  }
  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  // A key that must say nothing, or `harmless`.
  void refuse(const char* key, const Json& harmless, const char* what) const {
    if (!has(key) || json_[key] == harmless || json_[key].empty()) return;
    throw NotImplemented(fmt::format("{}: {}: {} ({})", path_, key, excerpt(json_[key], 40), what));
  }

 private:
  FormatError wrong_type(const Json& found, const char* key) const {
    return {path_, 0, key, fmt::format("is {}, of another type than PEFT's", excerpt(found, 40))};
  }
  std::int64_t whole(const Json& json, const char* key) const {
    const auto value = whole_number(json);
    if (!value) throw wrong_type(json, key);
    return *value;
  }

  const Json& json_;
  const std::string& path_;
};

}  // namespace

LoraConfig LoraConfig::from_json(std::string_view text, const std::string& path) {
  const Json json = parse_json<Json>(text, path);
  if (!json.is_object()) throw FormatError(path, 0, "document", "is not a JSON object");
  const Keys keys(json, path);
  std::string type = "LORA";
  keys.read("peft_type", type);
  if (type != "LORA")
    throw NotImplemented(fmt::format("{}: peft_type {}; LORA is what Ingot has", path, type));
  keys.refuse("lora_bias", false, "biases of adapters");
  keys.refuse("bias", "none", "trained biases of the base model");
  keys.refuse("layer_replication", nullptr, "replicated layers");
  keys.refuse("alora_invocation_tokens", nullptr, "activated LoRA");
  LoraConfig config;
  keys.read("r", config.r);
  keys.read("lora_alpha", config.lora_alpha);
  keys.read("lora_dropout", config.lora_dropout);
  keys.read("use_rslora", config.use_rslora);
  keys.read("use_dora", config.use_dora);
  if (json.contains("target_modules") && json["target_modules"].is_string() &&
      json["target_modules"] != "all-linear")
    config.target_regex = json["target_modules"].get<std::string>();
  else
    keys.read_names("target_modules", config.target_modules);
  keys.read_names("exclude_modules", config.exclude_modules);
  keys.read_names("target_parameters", config.target_parameters);
  if (keys.has("layers_to_transform") && json["layers_to_transform"].is_number())
    keys.read("layers_to_transform", config.layers_to_transform.emplace_back());
  else
    keys.read("layers_to_transform", config.layers_to_transform);
  keys.read("rank_pattern", config.rank_pattern);
  keys.read("alpha_pattern", config.alpha_pattern);
  keys.read_names("modules_to_save", config.modules_to_save);
  if (keys.has("trainable_token_indices") && json["trainable_token_indices"].is_array())
    keys.read("trainable_token_indices", config.trainable_token_indices[""]);
  else
    keys.read("trainable_token_indices", config.trainable_token_indices);
  keys.read("base_model_name_or_path", config.base_model_name_or_path);
  config.validate();
  return config;
}

std::string LoraConfig::to_json() const {
  Json json{{"peft_type", "LORA"},
            {"task_type", "CAUSAL_LM"},
            {"base_model_name_or_path", base_model_name_or_path},
            {"inference_mode", true},
            {"r", r},
            {"lora_alpha", lora_alpha},
            {"use_rslora", use_rslora},
            {"use_dora", use_dora},
            {"lora_dropout", lora_dropout},
            {"bias", "none"},
            {"fan_in_fan_out", false},
            {"init_lora_weights", true},
            {"rank_pattern", Json::object()},
            {"alpha_pattern", Json::object()}};
  for (const auto& [pattern, rank] : rank_pattern) json["rank_pattern"][pattern] = rank;
  for (const auto& [pattern, alpha] : alpha_pattern) json["alpha_pattern"][pattern] = alpha;
  if (target_regex.empty())
    json["target_modules"] = target_modules;
  else
    json["target_modules"] = target_regex;
  json["target_parameters"] = target_parameters.empty() ? Json(nullptr) : Json(target_parameters);
  json["exclude_modules"] = exclude_modules.empty() ? Json(nullptr) : Json(exclude_modules);
  json["layers_to_transform"] = layers_to_transform.empty() ? Json(nullptr) : Json(layers_to_transform);
  json["trainable_token_indices"] =
      trainable_token_indices.empty() ? Json(nullptr) : Json(trainable_token_indices);
  json["modules_to_save"] = modules_to_save.empty() ? Json(nullptr) : Json(modules_to_save);
  return dump_json(json, 2) + "\n";
}

void LoraConfig::validate() const {
  constexpr std::int64_t kMost = 65536;
  const auto check_rank = [&](const std::string& key, std::int64_t rank) {
    INGOT_CHECK(rank > 0 && rank <= kMost,
                InvalidConfig(key, fmt::format("must be between 1 and {}, got {}", kMost, rank)));
  };
  check_rank("r", r);
  for (const auto& [pattern, rank] : rank_pattern) check_rank("rank_pattern." + pattern, rank);
  for (const auto& [module, rows] : trainable_token_indices)
    INGOT_CHECK(std::ranges::all_of(rows, [](std::int64_t row) { return row >= 0; }) &&
                    std::set<std::int64_t>(rows.begin(), rows.end()).size() == rows.size(),
                InvalidConfig("trainable_token_indices", "must be ids of tokens, each once"));
  INGOT_CHECK(lora_dropout >= 0 && lora_dropout < 1,
              InvalidConfig("lora_dropout", fmt::format("must be in [0, 1), got {}", lora_dropout)));
  INGOT_CHECK(std::isfinite(lora_alpha),
              InvalidConfig("lora_alpha", fmt::format("must be a number, got {}", lora_alpha)));
}

bool LoraConfig::targets(const std::string& module, bool is_head) const {
  if (excludes(module)) return false;
  const std::int64_t layer = layer_of(module);
  if (!layers_to_transform.empty() &&
      std::ranges::find(layers_to_transform, layer) == layers_to_transform.end())
    return false;
  if (!target_regex.empty()) return matches_whole(target_regex, module);
  if (targets_all_linear()) return !is_head;
  return is_named(module, target_modules);
}

bool LoraConfig::targets_all_linear() const {
  return target_modules == std::vector<std::string>{"all-linear"};
}
bool LoraConfig::targets_parameter(const std::string& name) const {
  return is_named(name, target_parameters);
}
bool LoraConfig::excludes(const std::string& module) const { return is_named(module, exclude_modules); }

bool LoraConfig::saves(const std::string& module) const { return is_named(module, modules_to_save); }

std::vector<std::int64_t> LoraConfig::token_rows(const std::string& module, bool is_embedding) const {
  for (const auto& [name, rows] : trainable_token_indices)
    if (name.empty() ? is_embedding : is_named(module, {name})) return rows;
  return {};
}

std::int64_t LoraConfig::rank_of(const std::string& module) const {
  return by_pattern(rank_pattern, module, r);
}

float LoraConfig::scale_of(const std::string& module, std::int64_t rank) const {
  const double alpha = by_pattern(alpha_pattern, module, lora_alpha);
  const auto of = static_cast<double>(rank);
  return static_cast<float>(use_rslora ? alpha / std::sqrt(of) : alpha / of);
}

}  // namespace ingot
