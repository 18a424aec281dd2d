#include "ingot/train/language/adapter_training.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/infer/packed_cache.h"
#include "ingot/models/adapter/modules.h"
#include "ingot/models/adapter/open_adapter.h"
#include "ingot/models/adapter/token_rows.h"
#include "ingot/models/architecture_check.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/models/language/vocabulary.h"
#include "ingot/ops/cast.h"
#include "ingot/quant/packed_matrix.h"
#include "ingot/train/language/train_keys.h"

namespace ingot {
namespace {

constexpr const char* kStored = "stored";

// Shows f the parts of an architecture that take adapters, without their memory.
template <class F>
void look_at_parts_of(const LanguageConfig& config, F&& f) {
  ShapeRecorder shapes;
  LanguageModel model(config, shapes);
  const WeightMap map = LanguageModel::weight_map(config);
  f(AdaptedParts({model, map}));
}

// What a format takes, of a matrix that all formats' blocks divide.
double bytes_per_element(const std::string& format) {
  constexpr std::int64_t kRows = 16, kColumns = 256;
  const auto matrix = quant::quantize_and_pack(Tensor::zeros({kRows, kColumns}), format);
  return static_cast<double>(matrix->nbytes()) / (kRows * kColumns);
}

void read_targets(const ConfigReader& root, LoraConfig& lora) {
  lora.target_modules = root.get("lora_target_modules", std::vector<std::string>{});
  // One that is not a name is PEFT's regular expression.
  if (lora.target_modules.size() == 1 &&
      lora.target_modules.front().find_first_of("*([|\\+") != std::string::npos)
    lora.target_regex = std::exchange(lora.target_modules, {}).front();
  const bool none =
      lora.target_modules.empty() && lora.target_regex.empty() && lora.target_parameters.empty();
  if (root.get("lora_target_linear", none) && lora.target_regex.empty()) lora.target_modules = {"all-linear"};
}

std::string base_format(const ConfigReader& root, bool qlora, const std::string& model) {
  const bool four = root.get("load_in_4bit", false), eight = root.get("load_in_8bit", false);
  if (four && eight) root.fail("load_in_8bit", "is set beside load_in_4bit; choose one");
  std::string usual;
  if (qlora || four) usual = model.ends_with(".gguf") ? kStored : "nf4";
  if (eight) usual = "int8";
  const std::string format = root.get("base_format", usual);
  if (!format.empty() && format != kStored) static_cast<void>(bytes_per_element(format));  // or lists them
  return format;
}

}  // namespace

AdapterTraining read_adapter_training(const ConfigReader& root, const std::string& model) {
  AdapterTraining adapter;
  const std::string kind =
      root.choice("adapter", root.get("lora", false) ? "lora" : "none", {"none", "lora", "qlora"});
  adapter.enabled = kind != "none";
  LoraConfig& lora = adapter.lora;
  lora.r = 16;
  lora.lora_alpha = 32;
  adapter_keys().read(root, adapter);
  read_targets(root, lora);
  adapter.base_format = base_format(root, kind == "qlora", model);
  lora.base_model_name_or_path = model;
  if (!adapter.enabled && adapter.quantizes_base())
    root.fail(root.has("base_format")    ? "base_format"
              : root.has("load_in_8bit") ? "load_in_8bit"
                                         : "load_in_4bit",
              "needs adapter: qlora; a quantized model does not train by itself");
  return adapter;
}

std::int64_t AdapterTraining::parameter_count(const LanguageConfig& model) const {
  std::int64_t count = 0;
  look_at_parts_of(model, [&](const AdaptedParts& parts) {
    for (const AdaptedWeight& at : parts.weights) {
      if (lora.targets(at.module, at.is_head))
        count += lora.rank_of(at.module) * (at.weight->in() + at.weight->out()) +
                 (lora.use_dora ? at.weight->out() : 0);
      if (lora.saves(at.module)) count += at.weight->in() * at.weight->out();
      if (has_token_rows(at))
        count += at.weight->in() * std::ssize(lora.token_rows(at.module, at.ours == "model.embed_tokens"));
    }
  });
  return count + expert_parameter_count(model);
}

std::int64_t AdapterTraining::expert_parameter_count(const LanguageConfig& model) const {
  std::int64_t count = 0;
  look_at_parts_of(model, [&](const AdaptedParts& parts) {
    for (const AdaptedExperts& at : parts.experts) {
      const Shape shape = at.experts->shape();
      if (targets(lora, at)) count += shape[0] * rank_of(lora, at) * (shape[1] + shape[2]);
    }
  });
  return count;
}

namespace {

// A file's own formats differ from matrix to matrix; q8_0 is more than most.
double bytes_per_quantized(const std::string& format) {
  return bytes_per_element(format == kStored ? "q8_0" : format);
}

}  // namespace

std::size_t AdapterTraining::layer_bytes(const LanguageConfig& model, DType dtype) const {
  const double each =
      quantizes_base() ? bytes_per_quantized(base_format) : static_cast<double>(byte_size(dtype));
  ShapeRecorder shapes;
  LanguageModel whole(model, shapes);
  double elements = 0;
  for (const auto& layer : whole.layers)
    for (const Parameter* parameter : parameters(*layer))
      if (parameter->shape().rank() > 1) elements += static_cast<double>(parameter->value.numel());
  return static_cast<std::size_t>(elements * each);
}

std::size_t AdapterTraining::expert_bytes(const LanguageConfig& model, DType dtype) const {
  const double each =
      quantizes_base() ? bytes_per_quantized(base_format) : static_cast<double>(byte_size(dtype));
  return static_cast<std::size_t>(static_cast<double>(model.expert_parameter_count()) * each);
}

std::size_t AdapterTraining::base_bytes(const LanguageConfig& model, DType dtype) const {
  const auto dense = static_cast<double>(byte_size(dtype));
  auto count = static_cast<double>(model.parameter_count());
  if (!quantizes_base()) return static_cast<std::size_t>(count * dense);
  const double quantized = bytes_per_quantized(base_format);
  auto bytes = static_cast<double>(expert_bytes(model, dtype));
  count -= static_cast<double>(model.expert_parameter_count());
  look_at_parts_of(model, [&](const AdaptedParts& parts) {
    for (const AdaptedWeight& at : parts.weights) {
      // Tables that get rows for new tokens are dense.
      if (tokens > 0 && has_token_rows(at)) continue;
      const auto elements = static_cast<double>(at.weight->in() * at.weight->out());
      bytes += elements * quantized;
      count -= elements;
    }
  });
  return static_cast<std::size_t>(bytes + count * dense);
}

std::unique_ptr<LanguageModel> load_base_model(const std::string& base, const AdapterTraining& adapter,
                                               DType dtype, Device device) {
  LoadOptions options{.dtype = dtype, .device = device, .copy = false, .trainable = false};
  options.keep_quantized = adapter.quantizes_base();
  if (adapter.base_format != kStored) options.format = adapter.base_format;
  const ModelCheckpoint checkpoint = open_checkpoint(base);
  if (!options.keep_quantized) return load_language_model(checkpoint, options);
  // What is rounded from bf16 is another cache than what is rounded from the values of the file.
  std::string format = options.format;
  if (!format.empty() && is_half_precision(dtype)) format += fmt::format("-of-{}", name(dtype));
  const auto cache =
      std::make_shared<infer::PackedCache>(base, *checkpoint.weights, format, infer::PackedCacheOptions{});
  options.store = cache;
  auto model = load_language_model(checkpoint, options);
  cache->save();
  return model;
}

namespace {

// modules_to_save may lie in the base's file still, which is mapped to be read.
void own_trained_memory(LanguageModel& model) {
  for (Parameter* parameter : parameters(model))
    if (parameter->trainable()) parameter->replace(clone(parameter->value.detach()));
}

}  // namespace

namespace {

// The adapter's own rows of tokens, and those of tokens that are new in this run.
void go_on_from(LanguageModel& model, const WeightMap& map, const AdapterTraining& adapter) {
  read_adapter(model, adapter.start_from);
  for (const AdaptedWeight& at : adapted_weights({model, map}))
    if (has_token_rows(at))
      add_token_rows(at, "default", adapter.lora.token_rows(at.module, at.ours == "model.embed_tokens"));
}

}  // namespace

std::unique_ptr<LanguageModel> load_adapted_model(const std::string& base, const AdapterTraining& adapter,
                                                  DType dtype, Device device, std::uint64_t seed,
                                                  const std::map<std::string, Tensor>& saved) {
  auto model = load_base_model(base, adapter, dtype, device);
  const WeightMap map = LanguageModel::weight_map(model->config);
  grow_vocabulary(*model, adapter.tokens);
  InitSource source(seed, DType::f32, device);
  if (adapter.start_from.empty())
    add_lora({*model, map}, adapter.lora, source);
  else
    go_on_from(*model, map, adapter);
  train_adapter_only({*model, map}, adapter.lora);
  if (backend(device).capabilities().host_memory) own_trained_memory(*model);
  for (LowRankAdapter* low_rank : adapters_of(*model)) low_rank->dropout = adapter.lora.lora_dropout;
  if (saved.empty()) return model;
  for (Parameter* parameter : parameters(*model)) {
    if (!parameter->trainable()) continue;
    const auto found = saved.find(parameter->name);
    INGOT_CHECK(
        found != saved.end() && found->second.shape() == parameter->shape(),
        InvalidConfig("lora_r, lora_target_modules, base_model",
                      fmt::format("must stay as the run was begun: {} is {} now, and {} in its checkpoint",
                                  parameter->name, to_string(parameter->shape()),
                                  found == saved.end() ? "missing" : to_string(found->second.shape()))));
    parameter->replace(clone(to(found->second, device)));
  }
  return model;
}

std::map<std::string, Tensor> trained_parameters(LanguageModel& model) {
  std::map<std::string, Tensor> trained;
  for (const Parameter* parameter : parameters(model))
    if (parameter->trainable()) trained[parameter->name] = parameter->value.detach();
  return trained;
}

void write_trained_adapter(const std::string& directory, LanguageModel& model, const AdapterTraining& adapter,
                           const std::map<std::string, Tensor>& values) {
  const WeightMap map = LanguageModel::weight_map(model.config);
  write_peft_adapter(directory, {model, map}, adapter.lora, "default", values);
}

}  // namespace ingot
