#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"
#include "ingot/models/require.h"

namespace ingot::families {
namespace {

void read_gpt_oss(const ConfigFile& file, LanguageConfig& c) {
  file.read("swiglu_limit", c.swiglu_limit);
  file.read("swiglu_alpha", c.swiglu_alpha);
  require(c.swiglu_limit > 0, "swiglu_limit", fmt::format("must be positive, got {}", c.swiglu_limit));
  c.moe_intermediate_size = c.intermediate_size;
  if (file.has("rope_parameters") || file.has("rope_scaling")) return;
  c.rope_scaling = {
      .type = "yarn", .factor = 32, .original_max_position_embeddings = 4096, .truncate = false};
}

void write_gpt_oss(const LanguageConfig& c, nlohmann::ordered_json& json) {
  for (const char* key :
       {"num_experts", "moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers"})
    json.erase(key);  // all its layers are alike
  json["num_local_experts"] = c.num_experts;
  json["swiglu_limit"] = c.swiglu_limit;
  json["swiglu_alpha"] = c.swiglu_alpha;
}

// Gate and up of all experts are one tensor [experts, in, 2 · out], interleaved.
void map_gpt_oss(const LanguageConfig& c, WeightMap& map) {
  const std::string experts = "model.layers.*.mlp.experts.";
  std::int64_t first = 0;
  for (const char* ours : {"gate_proj", "up_proj"}) {
    const WeightRule rule{
        .first = first++, .rows = c.moe_intermediate_size, .groups = c.num_experts, .every = 2};
    WeightRule matrix = rule, bias = rule;
    matrix.ours = experts + ours;
    matrix.theirs = experts + "gate_up_proj";
    matrix.transposed = true;
    bias.ours = experts + ours + "_bias";
    bias.theirs = experts + "gate_up_proj_bias";
    map.rules.push_back(matrix);
    map.rules.push_back(bias);
  }
  map.rules.push_back({.ours = experts + "down_proj", .theirs = experts + "down_proj", .transposed = true});
  map_name(map, "mlp.gate", "mlp.router");
}

constexpr auto kGptOssNames =
    kOuter + kAttention +
    std::array<GgufNameRule, 6>{
        {{"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm"},
         {"blk.*.attn_sinks", "model.layers.*.self_attn.sinks", bare},
         {"blk.*.ffn_gate_inp", "model.layers.*.mlp.router"},
         {"blk.*.ffn_gate_exps", "model.layers.*.mlp.experts.gate_up_proj", first_interleaved},
         {"blk.*.ffn_up_exps", "model.layers.*.mlp.experts.gate_up_proj", second_interleaved},
         {"blk.*.ffn_down_exps", "model.layers.*.mlp.experts.down_proj", transposed_stack}}};
constexpr auto kGptOssKeys = kLlamaKeys + std::array<GgufKeyRule, 1>{{{"expert_count", "num_local_experts"}}};

}  // namespace

std::vector<LanguageFamily> gpt_oss() {
  return {{.model_type = "gpt_oss",
           .architecture = "GptOssForCausalLM",
           .summary = "gpt-oss: attention sinks, sliding and full layers in turns, experts with biases",
           .variants = {"MXFP4 or plain experts", "attention biases or none", "layer_types",
                        "swiglu_limit and swiglu_alpha"},
           .repositories = {"openai/gpt-oss-20b", "openai/gpt-oss-120b"},
           .traits = {.expert_bias = true, .attention_sinks = true},
           .experts = true,
           .moe_layers_alike = true,
           .sliding_pattern = 2,
           .defaults = R"({"max_position_embeddings": 131072, "num_key_value_heads": 8, "head_dim": 64,
                           "rope_theta": 150000.0, "sliding_window": 128, "attention_bias": true,
                           "num_local_experts": 128, "num_experts_per_tok": 4, "swiglu_limit": 7.0,
                           "swiglu_alpha": 1.702})",
           .read = read_gpt_oss,
           .write = write_gpt_oss,
           .map_weights = map_gpt_oss,
           .gguf = {.architecture = "gpt-oss", .names = kGptOssNames, .keys = kGptOssKeys, .gating = 3}}};
}

}  // namespace ingot::families
