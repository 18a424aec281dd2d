#include "ingot/models/language/model_directory.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/models/language/name_map.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

// Buffers that checkpoints carry and that we compute or do not need.
const std::vector<std::string> kIgnored{"*.rotary_emb.inv_freq", "*.attn.bias", "*.attn.masked_bias"};

std::string generation_config(const LanguageConfig& config) {
  nlohmann::ordered_json json{{"_from_model_config", true}};
  if (config.bos_token_id >= 0) json["bos_token_id"] = config.bos_token_id;
  if (config.eos_token_id >= 0) json["eos_token_id"] = config.eos_token_id;
  return json.dump(2) + "\n";
}

}  // namespace

std::unique_ptr<LanguageModel> load_language_model(const std::string& directory, const LoadOptions& options) {
  const std::string config_path = directory + "/config.json";
  INGOT_CHECK(std::filesystem::exists(config_path),
              IoError(directory, "is not a model directory: it holds no config.json"));
  LanguageConfig config = LanguageConfig::from_json(read_file(config_path), config_path);
  const std::unique_ptr<WeightSource> weights = open_weights(directory);
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : weights->tensors()) tensors[info.name] = weights->load_tensor(info.name);
  // A tied head is often stored all the same; it is the embedding once more.
  if (config.tie_word_embeddings) tensors.erase("lm_head.weight");
  if (options.dtype.has_value()) config.dtype = *options.dtype;
  TensorMapSource source(import_names(config, std::move(tensors)), options, directory);
  auto model = std::make_unique<LanguageModel>(config, source);
  source.finish(kIgnored);
  return model;
}

void write_language_model(const std::string& directory, const LanguageConfig& config,
                          const std::map<std::string, Tensor>& weights) {
  make_directories(directory);
  write_file_atomically(directory + "/config.json", config.to_json());
  write_file_atomically(directory + "/generation_config.json", generation_config(config));
  std::vector<StoredTensor> stored;
  for (const auto& [name, tensor] : export_names(config, weights))
    stored.push_back(StoredTensor::of(name, tensor));
  write_safetensors_directory(directory, stored);
}

std::map<std::string, Tensor> parameter_map(LanguageModel& model) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, parameter] : named_parameters(model)) tensors[name] = parameter->value.detach();
  return tensors;
}

}  // namespace ingot
