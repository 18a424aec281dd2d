#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/infer/sentence_embedder.h"
#include "ingot/models/config_file.h"

namespace ingot {
namespace {

// sentence-transformers' flags. Several at once would be joined vectors.
constexpr std::array<std::pair<const char*, Pooling>, 5> kPoolings{{
    {"pooling_mode_mean_tokens", Pooling::mean},
    {"pooling_mode_cls_token", Pooling::cls},
    {"pooling_mode_max_tokens", Pooling::max},
    {"pooling_mode_mean_sqrt_len_tokens", Pooling::mean_sqrt_length},
    {"pooling_mode_lasttoken", Pooling::last},
}};

Pooling read_pooling(const std::string& path) {
  const ConfigFile file(read_file(path), path);
  std::vector<Pooling> chosen;
  for (const auto& [key, pooling] : kPoolings) {
    bool on = false;
    file.read(key, on);
    if (on) chosen.push_back(pooling);
  }
  bool weighted = false;
  file.read("pooling_mode_weightedmean_tokens", weighted);
  INGOT_CHECK(chosen.size() == 1 && !weighted,
              NotImplemented(fmt::format(
                  "{}: other than exactly one of mean, cls, max, mean_sqrt_len and lasttoken", path)));
  return chosen.front();
}

// The type's last part: "sentence_transformers.models.Pooling" is "Pooling".
std::string class_of(const std::string& type) { return type.substr(type.rfind('.') + 1); }

void read_modules(const std::string& directory, SentenceConfig& config) {
  const std::string path = directory + "/modules.json";
  const nlohmann::json modules = parse_json_or_discard<nlohmann::json>(read_file(path));
  INGOT_CHECK(modules.is_array(), FormatError(path, -1, "modules", "is not a JSON list"));
  for (const nlohmann::json& module : modules) {
    INGOT_CHECK(module.is_object() && module.value("type", nlohmann::json()).is_string() &&
                    module.value("path", nlohmann::json()).is_string(),
                FormatError(path, -1, "modules", "each module needs the strings type and path"));
    const std::string type = class_of(module["type"].get<std::string>());
    const auto place = module["path"].get<std::string>();
    INGOT_CHECK(place.find("..") == std::string::npos && !place.starts_with('/'),
                FormatError(path, -1, "path", fmt::format("'{}' leads out of the directory", place)));
    if (type == "Pooling") config.pooling = read_pooling(directory + "/" + place + "/config.json");
    if (type == "Normalize") config.normalize = true;
    INGOT_CHECK(type == "Transformer" || type == "Pooling" || type == "Normalize",
                NotImplemented(
                    fmt::format("{}: the module {} (Transformer, Pooling and Normalize are)", path, type)));
  }
}

}  // namespace

std::string_view name(Pooling pooling) {
  static constexpr std::array<std::string_view, 5> kNames{"mean", "cls", "max", "mean_sqrt_length", "last"};
  return kNames.at(static_cast<std::size_t>(pooling));
}

SentenceConfig SentenceConfig::from_directory(const std::string& directory, std::int64_t context) {
  SentenceConfig config;
  config.max_seq_length = context;
  if (std::filesystem::exists(directory + "/modules.json")) read_modules(directory, config);
  const std::string limits = directory + "/sentence_bert_config.json";
  if (std::filesystem::exists(limits)) {
    ConfigFile(read_file(limits), limits).read("max_seq_length", config.max_seq_length);
  }
  config.max_seq_length = std::min(config.max_seq_length, context);
  return config;
}

}  // namespace ingot
