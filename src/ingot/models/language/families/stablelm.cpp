#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

void read_stablelm(const ConfigFile& file, LanguageConfig& c) {
  bool qk_norm = false, parallel = false;
  file.read("qk_layernorm", qk_norm);
  INGOT_CHECK(!qk_norm, NotImplemented(file.path() + ": qk_layernorm true (false is)"));
  file.read("use_parallel_residual", parallel);
  if (parallel) c.norm_placement = NormPlacement::parallel;
  c.attention_output_bias = false;
}

void write_stablelm(const LanguageConfig& c, nlohmann::ordered_json& json) {
  json["use_parallel_residual"] = c.norm_placement == NormPlacement::parallel;
}

constexpr auto kStableLmKeys =
    kLayerNormKeys +
    std::array<GgufKeyRule, 1>{{{"use_parallel_residual", "use_parallel_residual", boolean}}};

}  // namespace

std::vector<LanguageFamily> stablelm() {
  return {{.model_type = "stablelm",
           .architecture = "StableLmForCausalLM",
           .summary = "StableLM 2 and 3B: LayerNorm, partial rotary heads",
           .variants = {"attention and MLP side by side or not", "biases of query, key and value"},
           .repositories = {"stabilityai/stablelm-2-1_6b", "stabilityai/stablelm-3b-4e1t"},
           .traits = {.norm = NormKind::layer},
           .defaults = R"({"max_position_embeddings": 4096, "num_key_value_heads": 32,
                           "partial_rotary_factor": 0.25})",
           .norm_eps_key = "layer_norm_eps",
           .attention_bias_key = "use_qkv_bias",
           .read = read_stablelm,
           .write = write_stablelm,
           .gguf = {.architecture = "stablelm", .names = kQwen2Names, .keys = kStableLmKeys}}};
}

}  // namespace ingot::families
