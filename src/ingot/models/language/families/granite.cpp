#include <cmath>

#include <nlohmann/json.hpp>

#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"
#include "ingot/models/require.h"

namespace ingot::families {
namespace {

void read_granite(const ConfigFile& file, LanguageConfig& c) {
  double divisor = 1;
  c.attention_multiplier = 1;
  file.read("embedding_multiplier", c.embedding_multiplier);
  file.read("attention_multiplier", c.attention_multiplier);
  file.read("residual_multiplier", c.residual_multiplier);
  file.read("logits_scaling", divisor);
  require(divisor > 0, "logits_scaling", "must be positive");
  c.logit_scale = 1 / divisor;
}

void write_granite(const LanguageConfig& c, nlohmann::ordered_json& json) {
  json["embedding_multiplier"] = c.embedding_multiplier;
  json["attention_multiplier"] =
      c.attention_multiplier > 0 ? c.attention_multiplier : 1 / std::sqrt(static_cast<double>(c.head_dim));
  json["residual_multiplier"] = c.residual_multiplier;
  json["logits_scaling"] = 1 / c.logit_scale;
}

}  // namespace

void read_granite_moe(const ConfigFile& file, LanguageConfig& c) {
  read_granite(file, c);
  file.read("shared_intermediate_size", c.shared_expert_intermediate_size);
}

void write_granite_moe(const LanguageConfig& c, nlohmann::ordered_json& json) {
  write_granite(c, json);
  for (const char* key :
       {"num_experts", "moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers"}) {
    json.erase(key);  // all its layers are alike
  }
  json["num_local_experts"] = c.num_experts;
  if (c.shared_expert_intermediate_size > 0)
    json["shared_intermediate_size"] = c.shared_expert_intermediate_size;
}

// Gate and up of all experts are one tensor, and so are those of the shared one.
void map_granite_moe(const LanguageConfig& c, WeightMap& map) {
  const std::string layer = "model.layers.*.", block = layer + "block_sparse_moe.";
  const std::int64_t width = c.moe_intermediate_size, shared = c.shared_expert_intermediate_size;
  map.rules.push_back({.ours = layer + "mlp.gate.weight", .theirs = block + "router.layer.weight"});
  map.rules.push_back({.ours = layer + "mlp.experts.gate_proj",
                       .theirs = block + "input_linear.weight",
                       .first = 0,
                       .rows = width,
                       .groups = c.num_experts});
  map.rules.push_back({.ours = layer + "mlp.experts.up_proj",
                       .theirs = block + "input_linear.weight",
                       .first = width,
                       .rows = width,
                       .groups = c.num_experts});
  map.rules.push_back({.ours = layer + "mlp.experts.down_proj", .theirs = block + "output_linear.weight"});
  map_rows(map, "mlp.shared_expert.gate_proj", "shared_mlp.input_linear", 0, shared);
  map_rows(map, "mlp.shared_expert.up_proj", "shared_mlp.input_linear", shared, shared);
  map_name(map, "mlp.shared_expert.down_proj", "shared_mlp.output_linear");
}

namespace {

constexpr std::string_view kMoeDefaults =
    R"({"rms_norm_eps": 1e-6, "num_local_experts": 8, "num_experts_per_tok": 2})";

// Their logits are divided by logit_scale.
constexpr auto kGraniteKeys =
    kLlamaKeys + std::array<GgufKeyRule, 4>{{{"embedding_scale", "embedding_multiplier", number},
                                             {"residual_scale", "residual_multiplier", number},
                                             {"attention.scale", "attention_multiplier", number},
                                             {"logit_scale", "logits_scaling", number}}};
constexpr auto kGraniteMoeNames = kOuter + kPairedAttention + kMlpNorm + kGraniteExperts;
constexpr auto kGraniteMoeKeys =
    kGraniteKeys +
    std::array<GgufKeyRule, 2>{{{"expert_count", "num_local_experts"},
                                {"expert_shared_feed_forward_length", "shared_intermediate_size"}}};
constexpr GgufFamily kGraniteMoeGguf{
    .architecture = "granitemoe", .names = kGraniteMoeNames, .keys = kGraniteMoeKeys};

}  // namespace

std::vector<LanguageFamily> granite() {
  return {
      {.model_type = "granite",
       .architecture = "GraniteForCausalLM",
       .summary = "Granite 3 and 4, dense: Llama with multipliers",
       .variants = {"multipliers of embeddings, scores, residuals and logits", "attention and MLP biases"},
       .repositories = {"ibm-granite/granite-3.3-2b-instruct", "ibm-granite/granite-3.1-8b-base"},
       .defaults = R"({"rms_norm_eps": 1e-6})",
       .mlp_bias_key = "mlp_bias",
       .read = read_granite,
       .write = write_granite,
       .gguf = {.architecture = "granite", .names = kLlamaNames, .keys = kGraniteKeys}},
      {.model_type = "granitemoe",
       .architecture = "GraniteMoeForCausalLM",
       .summary = "Granite 3, mixture of experts",
       .variants = {"multipliers of embeddings, scores, residuals and logits", "attention biases"},
       .repositories = {"ibm-granite/granite-3.1-1b-a400m-instruct", "ibm-granite/granite-3.1-3b-a800m-base"},
       .experts = true,
       .moe_layers_alike = true,
       .defaults = kMoeDefaults,
       .read = read_granite_moe,
       .write = write_granite_moe,
       .map_weights = map_granite_moe,
       .gguf = kGraniteMoeGguf},
      {.model_type = "granitemoeshared",
       .architecture = "GraniteMoeSharedForCausalLM",
       .summary = "Granite, mixture of experts with a shared one",
       .variants = {"multipliers of embeddings, scores, residuals and logits", "attention biases"},
       .repositories = {"ibm-research/moe-7b-1b-active-shared-experts"},
       .experts = true,
       .moe_layers_alike = true,
       .defaults = kMoeDefaults,
       .read = read_granite_moe,
       .write = write_granite_moe,
       .map_weights = map_granite_moe,
       .gguf = kGraniteMoeGguf}};
}

}  // namespace ingot::families
