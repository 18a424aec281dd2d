#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/models/config_file.h"
#include "ingot/models/encoder/bert.h"
#include "ingot/models/encoder/family.h"
#include "ingot/models/encoder/gguf_encoder.h"
#include "ingot/models/tensorflow_names.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

// A layer's parameter by the name of all layers'.
std::string of_all_layers(const std::string& name) {
  constexpr std::string_view kLayers = "encoder.layer.";
  if (!name.starts_with(kLayers)) return name;
  return std::string(kLayers) + "*" + name.substr(name.find('.', kLayers.size()));
}

// Puts the prefix before every name of the encoder that the rules have, and before those that have no rule.
void add_prefix(const EncoderFamily& family, const EncoderConfig& config, WeightMap& map) {
  const std::string prefix(family.prefix);
  for (WeightRule& rule : map.rules) rule.theirs = prefix + rule.theirs;
  std::set<std::string> known;
  for (const WeightRule& rule : map.rules) known.insert(rule.ours);
  for (const ParameterShape& parameter : encoder_parameters(config)) {
    if (parameter.name.starts_with("cls.") || parameter.name.starts_with("classifier.")) continue;
    if (!family.pooler_has_prefix && parameter.name.starts_with("pooler.")) continue;
    const std::string name = of_all_layers(parameter.name);
    if (known.insert(name).second) map.rules.push_back({.ours = name, .theirs = prefix + name});
  }
}

void map_classifier(const EncoderFamily& family, LabelsOf of, WeightMap& map) {
  const ClassifierLayout& layout = family.classifier;
  const std::string_view out = of == LabelsOf::tokens ? "classifier" : layout.out;
  const auto add = [&map](std::string_view ours, std::string_view theirs) {
    for (const char* kind : {"weight", "bias"})
      map.rules.push_back({.ours = fmt::format("classifier.{}.{}", ours, kind),
                           .theirs = fmt::format("{}.{}", theirs, kind)});
  };
  add("dense", layout.dense);
  if (!layout.norm.empty()) add("norm", layout.norm);
  add("out", out);
  map.outside.insert(map.outside.end(), {"classifier.*", "pre_classifier.*", "head.*"});
}

// Whether the checkpoint holds the masked-LM head, under any of its spellings.
bool has_head(const EncoderFamily& family, const EncoderConfig& config, const WeightSource& weights) {
  WeightMap names;
  if (family.map_encoder != nullptr) family.map_encoder(config, names);
  return std::ranges::any_of(
      weights.tensors(), [&](const TensorInfo& info) { return names.canonical(info.name) == family.head; });
}

// The rows of the classifier's last matrix; 0: it has none.
std::int64_t label_count(const EncoderConfig& config, const WeightSource& weights) {
  const EncoderFamily& family = *find_encoder_family(config.model_type);
  const std::string_view out = config.labels.of == LabelsOf::tokens ? "classifier" : family.classifier.out;
  const std::string name = fmt::format("{}.weight", out);
  for (const TensorInfo& info : weights.tensors()) {
    if (info.name == name && info.shape.size() == 2) return info.shape[0];
  }
  return 0;
}

// Whether matrices are in f16 and vectors in f32, as in llama.cpp's files: sums need one dtype.
bool has_several_dtypes(const WeightSource& weights) {
  std::set<DType> dtypes;
  for (const TensorInfo& info : weights.tensors())
    if (info.dtype.has_value() && is_floating_point(*info.dtype)) dtypes.insert(*info.dtype);
  return dtypes.size() > 1;
}

ModelCheckpoint open_directory(const std::string& directory) {
  const std::string config_path = config_path_in(directory);
  INGOT_CHECK(std::filesystem::exists(config_path),
              IoError(directory, "is not a model directory: it holds no config.json"));
  return {read_model_config(config_path), config_path, under_torch_names(open_weights(directory))};
}

}  // namespace

std::vector<ParameterShape> encoder_parameters(const EncoderConfig& config) {
  ShapeRecorder shapes;
  const BertModel model(config, shapes);
  return shapes.parameters();
}

std::int64_t EncoderConfig::parameter_count() const {
  std::int64_t count = 0;
  for (const ParameterShape& parameter : encoder_parameters(*this)) count += parameter.shape.numel();
  return count;
}

WeightMap BertModel::weight_map(const EncoderConfig& config) {
  const EncoderFamily& family = *find_encoder_family(config.model_type);
  const std::string legacy = "legacy names gamma and beta", prefix(family.prefix);
  WeightMap map{.rules = {},
                .spellings = {{".LayerNorm.gamma", ".LayerNorm.weight", false, legacy},
                              {".LayerNorm.beta", ".LayerNorm.bias", false, ""}},
                .prefix = "",
                .outside = {},
                .ignored = {"*embeddings.position_ids", "cls.seq_relationship.*"}};
  if (family.map_encoder != nullptr) family.map_encoder(config, map);
  if (!config.masked_lm_head && config.labels.of == LabelsOf::nothing) {
    map.spellings.push_back({prefix, "", true, "encoder of a model with a head"});
    map.ignored.insert(map.ignored.end(),
                       {"cls.*", "lm_predictions.*", "mask_predictions.*", "lm_head.*", "vocab_*",
                        "classifier.*", "pre_classifier.*", "predictions.*", "sop_classifier.*",
                        "generator_*", "discriminator_*", "head.*", "decoder.*"});
    return map;
  }
  // With a head, the encoder's names have a prefix. The masked-LM head is tied to the word embeddings; often
  // it is stored.
  add_prefix(family, config, map);
  map.prefix = prefix;
  if (config.masked_lm_head) family.map_head(map);
  if (config.labels.of != LabelsOf::nothing) map_classifier(family, config.labels.of, map);
  if (!family.pooler_has_prefix) map.outside.emplace_back("pooler.*");
  if (!config.pooler) map.ignored.push_back(prefix + std::string(family.pooler) + ".*");
  return map;
}

ArchitectureReport BertModel::architecture_check(const EncoderConfig& config, const WeightSource& weights) {
  require_enough_tensors(config.num_hidden_layers, "num_hidden_layers", weights);
  ArchitectureReport report = check_architecture(encoder_parameters(config), weight_map(config), weights);
  report.family = config.model_type;
  if (config.pooler) report.variants.emplace_back("pooler");
  if (config.masked_lm_head) report.variants.emplace_back("masked-LM head");
  if (config.labels.of != LabelsOf::nothing) report.variants.emplace_back("classifier");
  return report;
}

std::unique_ptr<BertModel> BertModel::from_weights(const EncoderConfig& config, const WeightSource& weights,
                                                   const LoadOptions& options) {
  architecture_check(config, weights).require(weights.location());
  MappedSource source(weights, weight_map(config), options);
  return std::make_unique<BertModel>(config, source);
}

EncoderConfig with_heads_of(EncoderConfig config, const WeightSource& weights) {
  const EncoderFamily& family = *find_encoder_family(config.model_type);
  const std::string pooler = std::string(family.pooler) + ".weight";
  config.pooler = weights.is_available(pooler) || weights.is_available(std::string(family.prefix) + pooler);
  const bool classifies = config.labels.of != LabelsOf::nothing;
  const bool shared = classifies && family.head == std::string(family.classifier.dense) + ".weight";
  config.masked_lm_head = !shared && has_head(family, config, weights);
  if (config.labels.of == LabelsOf::nothing) return config;
  if (const std::int64_t labels = label_count(config, weights); labels > 0) config.labels.resize(labels);
  return config;
}

std::unique_ptr<BertModel> load_bert(const std::string& directory, const LoadOptions& options) {
  const bool gguf = directory.ends_with(".gguf") && !std::filesystem::is_directory(directory);
  const ModelCheckpoint opened =
      gguf ? encoder_gguf_checkpoint(open_gguf(directory)) : open_directory(directory);
  EncoderConfig config = EncoderConfig::from_json(opened.config_json, opened.config_path);
  const std::shared_ptr<const WeightSource>& weights = opened.weights;
  config = with_heads_of(std::move(config), *weights);
  LoadOptions one_dtype = options;
  if (!options.dtype.has_value() && has_several_dtypes(*weights)) one_dtype.dtype = DType::f32;
  if (one_dtype.dtype.has_value()) config.dtype = *one_dtype.dtype;
  return BertModel::from_weights(config, *weights, one_dtype);
}

void write_bert(const std::string& directory, BertModel& model) {
  make_directories(directory);
  write_file_atomically(directory + "/config.json", model.config.to_json());
  std::map<std::string, Tensor> weights;
  for (const auto& [name, parameter] : named_parameters(model)) weights[name] = parameter->value.detach();
  std::vector<StoredTensor> stored;
  for (const auto& [name, tensor] : export_tensors(BertModel::weight_map(model.config), weights)) {
    stored.push_back(StoredTensor::of(name, tensor));
  }
  write_safetensors_directory(directory, stored);
}

}  // namespace ingot
