#include "ingot/models/language/model_directory.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

std::string generation_config(const LanguageConfig& config) {
  nlohmann::ordered_json json{{"_from_model_config", true}};
  if (config.bos_token_id >= 0) json["bos_token_id"] = config.bos_token_id;
  if (config.eos_token_id >= 0) json["eos_token_id"] = config.eos_token_id;
  return dump_json(json, 2) + "\n";
}

}  // namespace

std::unique_ptr<LanguageModel> load_language_model(const std::string& path, const LoadOptions& options) {
  return load_language_model(open_checkpoint(path), options);
}

std::unique_ptr<LanguageModel> load_language_model(const ModelCheckpoint& checkpoint,
                                                   const LoadOptions& options) {
  LanguageConfig config = LanguageConfig::from_json(checkpoint.config_json, checkpoint.config_path);
  INGOT_CHECK(
      !config.use_bidirectional_attention,  // no token is next to what sees all
      InvalidConfig(checkpoint.config_path,
                    fmt::format("use_bidirectional_attention is on: this {} model embeds texts (ingot "
                                "embed) and generates none; expected a causal language model",
                                config.model_type)));
  if (options.dtype.has_value()) config.dtype = *options.dtype;
  return LanguageModel::from_weights(config, *checkpoint.weights, options);
}

void write_language_model(const std::string& directory, const LanguageConfig& config,
                          const std::map<std::string, Tensor>& weights) {
  make_directories(directory);
  write_file_atomically(directory + "/config.json", config.to_json());
  write_file_atomically(directory + "/generation_config.json", generation_config(config));
  std::vector<StoredTensor> stored;
  for (const auto& [name, tensor] : export_tensors(LanguageModel::weight_map(config), weights))
    stored.push_back(StoredTensor::of(name, tensor));
  write_safetensors_directory(directory, stored);
}

std::map<std::string, Tensor> parameter_map(LanguageModel& model) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, parameter] : named_parameters(model)) tensors[name] = parameter->value.detach();
  return tensors;
}

}  // namespace ingot
