#include "ingot/infer/sentence_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/suggest.h"
#include "ingot/infer/sentence_gguf.h"
#include "ingot/models/config_file.h"

namespace ingot {
namespace {

struct PoolingNames {
  Pooling pooling;
  const char* name;  // in `pooling_mode`
  const char* flag;  // as files had it before sentence-transformers 6
};
// Several flags at once join their vectors in this order.
constexpr std::array<PoolingNames, 6> kPoolings{{
    {Pooling::cls, "cls", "pooling_mode_cls_token"},
    {Pooling::max, "max", "pooling_mode_max_tokens"},
    {Pooling::mean, "mean", "pooling_mode_mean_tokens"},
    {Pooling::mean_sqrt_length, "mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
    {Pooling::weighted_mean, "weightedmean", "pooling_mode_weightedmean_tokens"},
    {Pooling::last, "lasttoken", "pooling_mode_lasttoken"},
}};

Pooling pooling_named(const std::string& wanted, const std::string& path) {
  std::vector<std::string> known;
  for (const PoolingNames& row : kPoolings) {
    if (wanted == row.name) return row.pooling;
    known.emplace_back(row.name);
  }
  throw InvalidConfig("pooling_mode", fmt::format("{}: '{}' is not known{}; these are: {}", path, wanted,
                                                  did_you_mean(wanted, known), fmt::join(known, ", ")));
}

void read_pooling(const std::string& path, SentenceConfig& config) {
  const ConfigFile file(read_file(path), path);
  file.read("include_prompt", config.include_prompt);
  config.poolings.clear();
  std::vector<std::string> modes;
  file.read_list("pooling_mode", modes);
  for (const std::string& mode : modes) config.poolings.push_back(pooling_named(mode, path));
  if (!config.poolings.empty()) return;
  for (const PoolingNames& row : kPoolings) {
    bool on = false;
    file.read(row.flag, on);
    if (on) config.poolings.push_back(row.pooling);
  }
  if (config.poolings.empty()) config.poolings = {Pooling::mean};
}

// A layer of its own, on texts' vectors.
SentenceStage read_dense(const std::string& directory) {
  const std::string path = directory + "/config.json";
  const ConfigFile file(read_file(path), path);
  SentenceStage stage{.kind = SentenceStage::Kind::dense, .path = directory, .activation = "Tanh"};
  std::string activation, input = "sentence_embedding", output;
  file.read("activation_function", activation);
  if (!activation.empty()) stage.activation = activation.substr(activation.rfind('.') + 1);
  file.read("module_input_name", input);
  file.read("module_output_name", output);
  INGOT_CHECK(input == "sentence_embedding" && (output.empty() || output == input),
              NotImplemented(fmt::format("{}: Dense from {} to {} (sentence_embedding is)", path, input,
                                         output.empty() ? input : output)));
  return stage;
}

// The type's last part: "sentence_transformers.models.Pooling" is "Pooling".
std::string class_of(const std::string& type) { return type.substr(type.rfind('.') + 1); }

void add_module(const std::string& type, const std::string& directory, const std::string& path,
                SentenceConfig& config) {
  if (type == "Transformer") {
    config.encoder = directory;
  } else if (type == "Pooling") {
    read_pooling(directory + "/config.json", config);
  } else if (type == "Dense") {
    config.stages.push_back(read_dense(directory));
  } else if (type == "LayerNorm") {
    config.stages.push_back({.kind = SentenceStage::Kind::layer_norm, .path = directory});
  } else if (type == "Normalize") {
    config.stages.push_back({.kind = SentenceStage::Kind::normalize});
  } else {
    INGOT_CHECK(type == "Dropout",
                NotImplemented(fmt::format("{}: the module {} (Transformer, Pooling, Dense, LayerNorm, "
                                           "Normalize and Dropout are)",
                                           path, type)));
  }
}

void read_modules(const std::string& directory, SentenceConfig& config) {
  const std::string path = directory + "/modules.json";
  const nlohmann::json modules = parse_json_or_discard<nlohmann::json>(read_file(path));
  INGOT_CHECK(modules.is_array(), FormatError(path, -1, "modules", "is not a JSON list"));
  for (const nlohmann::json& module : modules) {
    INGOT_CHECK(module.is_object() && module.value("type", nlohmann::json()).is_string() &&
                    module.value("path", nlohmann::json()).is_string(),
                FormatError(path, -1, "modules", "each module needs the strings type and path"));
    const auto place = module["path"].get<std::string>();
    INGOT_CHECK(place.find("..") == std::string::npos && !place.starts_with('/'),
                FormatError(path, -1, "path", fmt::format("'{}' leads out of the directory", place)));
    add_module(class_of(module["type"].get<std::string>()),
               place.empty() ? directory : directory + "/" + place, path, config);
  }
}

void read_limits(SentenceConfig& config) {
  const std::string path = config.encoder + "/sentence_bert_config.json";
  if (std::filesystem::exists(path)) {
    const ConfigFile file(read_file(path), path);
    file.read("do_lower_case", config.lowercase);
    if (file.has("max_seq_length")) {
      std::int64_t tokens = 0;
      file.read("max_seq_length", tokens);
      config.max_seq_length = tokens;
    }
  }
  const std::string tokenizer = config.encoder + "/tokenizer_config.json";
  if (config.max_seq_length.has_value() || !std::filesystem::exists(tokenizer)) return;
  double limit = 0;  // 1e30 means none
  ConfigFile(read_file(tokenizer), tokenizer).read("model_max_length", limit);
  constexpr double kLargest = 1e15;
  if (limit > 0 && limit < kLargest) config.max_seq_length = static_cast<std::int64_t>(limit);
}

void read_prompts(const std::string& directory, SentenceConfig& config) {
  const std::string path = directory + "/config_sentence_transformers.json";
  if (!std::filesystem::exists(path)) return;
  const auto json = parse_json<nlohmann::json>(read_file(path), path, "config");
  INGOT_CHECK(json.is_object(), FormatError(path, -1, "config", "is not a JSON object"));
  if (const auto prompts = json.find("prompts"); prompts != json.end() && prompts->is_object()) {
    for (const auto& [name, text] : prompts->items()) {
      if (text.is_string()) config.prompts[name] = text.get<std::string>();
    }
  }
  ConfigFile(json.dump(), path).read("default_prompt_name", config.default_prompt);
  INGOT_CHECK(config.default_prompt.empty() || config.prompts.contains(config.default_prompt),
              InvalidConfig("default_prompt_name",
                            fmt::format("{}: '{}' is not one of prompts", path, config.default_prompt)));
}

}  // namespace

std::string_view name(Pooling pooling) {
  static constexpr std::array<std::string_view, 6> kNames{"mean", "cls",          "max", "mean_sqrt_length",
                                                          "last", "weighted_mean"};
  return kNames.at(static_cast<std::size_t>(pooling));
}

const std::string& SentenceConfig::prompt(const std::string& name) const {
  static const std::string kNone;
  const std::string& wanted = name.empty() ? default_prompt : name;
  if (wanted.empty()) return kNone;
  const auto found = prompts.find(wanted);
  if (found != prompts.end()) return found->second;
  std::vector<std::string> known;
  known.reserve(prompts.size());
  for (const auto& [each, text] : prompts) known.push_back(each);
  throw InvalidConfig("prompt name", known.empty()
                                         ? "this model has no prompts"
                                         : fmt::format("'{}' is not one of: {}{}", wanted,
                                                       fmt::join(known, ", "), did_you_mean(wanted, known)));
}

SentenceConfig SentenceConfig::from_directory(const std::string& directory) {
  if (directory.ends_with(".gguf")) return read_sentence_gguf(directory);
  SentenceConfig config{.encoder = directory};
  if (std::filesystem::exists(directory + "/modules.json")) read_modules(directory, config);
  read_limits(config);
  read_prompts(directory, config);
  return config;
}

}  // namespace ingot
