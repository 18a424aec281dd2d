#include "ingot/models/language/checkpoint.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/models/config_file.h"
#include "ingot/models/encoder/gguf_encoder.h"
#include "ingot/models/language/family.h"
#include "ingot/models/tensorflow_names.h"
#include "ingot/weights/open.h"
#include "ingot/weights/quantized_source.h"
#include "ingot/weights/transform.h"

namespace ingot {
namespace {

constexpr std::string_view kCompressed = "compressed-tensors";

// What compressed-tensors says of each group of layers: blocks of scales, and formats that Ingot lacks.
void read_compressed_groups(const ConfigFile& c, QuantizationConfig& q) {
  std::string format = "dense";
  c.read("format", format);
  static const std::vector<std::string> kFormats{
      "dense",           "pack-quantized",  "float-quantized",     "int-quantized",
      "naive-quantized", "mixed-precision", "nvfp4-pack-quantized"};
  INGOT_CHECK(std::ranges::find(kFormats, format) != kFormats.end(),
              NotImplemented(fmt::format("{}: quantization_config.format '{}'; these are read: {}", c.path(),
                                         format, fmt::join(kFormats, ", "))));
  const auto groups = c.object("config_groups");
  if (!groups) return;
  const auto all = parse_json<nlohmann::json>(groups->text(), c.path());
  for (const nlohmann::json& group : all) {
    if (!group.is_object() || !group.contains("weights") || !group["weights"].is_object()) continue;
    const ConfigFile of_weights(group["weights"].dump(), c.path());
    std::string strategy;
    std::vector<std::int64_t> block;
    of_weights.read("strategy", strategy);
    of_weights.read("block_structure", block);
    if (strategy != "block") continue;
    INGOT_CHECK(block.size() == 2 && block[0] > 0 && block[1] > 0,
                InvalidConfig("block_structure", fmt::format("{}: must be two positive numbers", c.path())));
    q.block_rows = block[0];
    q.block_cols = block[1];
  }
}

QuantizationConfig quantization_of(const ConfigFile& c, const std::string& model_type) {
  QuantizationConfig q{.method = "gptq"};  // AutoGPTQ's own quantize_config.json does not say
  c.read("quant_method", q.method);
  c.read("quant_algo", q.algorithm);
  c.read("bits", q.bits);
  std::string layout = "gptq", version = "gemm";
  c.read("checkpoint_format", layout);
  c.read("version", version);
  INGOT_CHECK(
      q.method != "gptq" || layout == "gptq" || layout == "gptq_v2",
      NotImplemented(fmt::format("{}: checkpoint_format '{}'; gptq and gptq_v2 are read", c.path(), layout)));
  INGOT_CHECK(q.method != "awq" || version == "gemm" || version == "GEMM",
              NotImplemented(fmt::format("{}: AWQ version '{}'; gemm is read", c.path(), version)));
  q.zeros_less_one = layout == "gptq";
  std::vector<std::int64_t> block;
  c.read("weight_block_size", block);
  INGOT_CHECK(block.empty() || block.size() == 2,
              InvalidConfig("weight_block_size", fmt::format("{}: must be two numbers", c.path())));
  if (!block.empty()) {
    q.block_rows = block[0];
    q.block_cols = block[1];
  }
  if (q.method == kCompressed) read_compressed_groups(c, q);
  const LanguageFamily* family = find_language_family(model_type);
  q.inputs_first = family != nullptr && family->inputs_first;
  return q;
}

std::string without_quantization(const std::string& config_json) {
  nlohmann::ordered_json json = parse_json<nlohmann::ordered_json>(config_json, "config.json");
  json.erase("quantization_config");
  return dump_json(json, 2) + "\n";
}

// Qwen 3.5's releases have all experts of a layer in one tensor, [experts, out, in], gate above up: here each
// by itself, as transformers saves them.
std::shared_ptr<const WeightSource> with_experts_apart(std::shared_ptr<const WeightSource> weights) {
  constexpr std::string_view kGateUp = ".mlp.experts.gate_up_proj", kDown = ".mlp.experts.down_proj";
  std::vector<TensorRecipe> recipes;
  bool any = false;
  for (const TensorInfo& info : weights->tensors()) {
    const bool both = info.name.ends_with(kGateUp), down = info.name.ends_with(kDown);
    if ((!both && !down) || info.shape.size() != 3) {
      recipes.push_back({info.name, {info.name}, {}});
      continue;
    }
    any = true;
    const std::string experts = info.name.substr(0, info.name.rfind('.'));
    for (std::int64_t i = 0; i < info.shape[0]; ++i) {
      const auto add = [&](const char* name, std::vector<Transform> steps) {
        steps.insert(steps.begin(), Transform::select(i));
        recipes.push_back({fmt::format("{}.{}.{}.weight", experts, i, name), {info.name}, std::move(steps)});
      };
      if (down) add("down_proj", {});
      if (down) continue;
      add("gate_proj", {Transform::part(0, 0, 2)});
      add("up_proj", {Transform::part(0, 1, 2)});
    }
  }
  if (!any) return weights;
  return std::make_shared<TransformedSource>(std::move(weights), std::move(recipes));
}

}  // namespace

namespace {

ModelCheckpoint open_gguf_checkpoint(const std::string& path) {
  const std::shared_ptr<const GgufSource> source = open_gguf(path);
  return is_encoder_gguf(source->fields()) ? encoder_gguf_checkpoint(source) : gguf_checkpoint(source);
}

}  // namespace

ModelCheckpoint open_checkpoint(const std::string& path) {
  if (path.ends_with(".gguf") && !std::filesystem::is_directory(path)) return open_gguf_checkpoint(path);
  const std::string config_path = path + "/config.json", other_path = path + "/quantize_config.json";
  INGOT_CHECK(
      std::filesystem::exists(config_path),
      IoError(path, "is not a model: expected a directory with config.json and weights, or a .gguf file"));
  ModelCheckpoint checkpoint{read_model_config(config_path), config_path,
                             under_torch_names(open_weights(path))};
  const ConfigFile config(checkpoint.config_json, config_path);
  if (text_model_type(checkpoint.config_json, config_path) == "qwen3_5_moe_text")
    checkpoint.weights = with_experts_apart(checkpoint.weights);
  std::optional<ConfigFile> quantization = config.object("quantization_config");
  if (!quantization && std::filesystem::exists(other_path))
    quantization.emplace(read_file(other_path), other_path);
  if (!quantization) return checkpoint;
  std::string model_type;
  config.read("model_type", model_type);
  checkpoint.weights = open_quantized(checkpoint.weights, quantization_of(*quantization, model_type));
  checkpoint.config_json = without_quantization(config.text());
  return checkpoint;
}

}  // namespace ingot
