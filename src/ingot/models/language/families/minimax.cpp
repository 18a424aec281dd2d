#include <nlohmann/json.hpp>

#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"
#include "ingot/models/require.h"

namespace ingot::families {
namespace {

// Released files say how many elements of a head rotate, not which part of it.
void read_minimax_m2(const ConfigFile& file, LanguageConfig& c) {
  std::int64_t rotary = 0;
  file.read("rotary_dim", rotary);
  if (rotary == 0 || file.has("partial_rotary_factor")) return;
  require_size(c.head_dim, "head_dim");
  c.partial_rotary_factor = static_cast<double>(rotary) / static_cast<double>(c.head_dim);
}

void write_minimax_m2(const LanguageConfig& c, nlohmann::ordered_json& json) {
  for (const char* key :
       {"num_experts", "moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers"})
    json.erase(key);  // all its layers are alike
  json["num_local_experts"] = c.num_experts;
}

void map_minimax_m2(const LanguageConfig& c, WeightMap& map) {
  map_experts(c, map, "block_sparse_moe", "w1", "w3", "w2");
  map_router_bias(map, "block_sparse_moe.e_score_correction_bias");
}

constexpr auto kMiniMaxNames =
    kOuter + kAttention + kMlpNorm + kHeadNorms + kBlockExperts +
    std::array<GgufNameRule, 1>{
        {{"blk.*.exp_probs_b", "model.layers.*.block_sparse_moe.e_score_correction", bare}}};
constexpr auto kMiniMaxKeys =
    kLlamaKeys + std::array<GgufKeyRule, 1>{{{"expert_count", "num_local_experts"}}};

}  // namespace

std::vector<LanguageFamily> minimax() {
  return {
      {.model_type = "minimax_m2",
       .architecture = "MiniMaxM2ForCausalLM",
       .summary = "MiniMax-M2: a mixture of experts chosen by sigmoids, partial RoPE",
       .variants = {"rotary_dim or partial_rotary_factor"},
       .repositories = {"MiniMaxAI/MiniMax-M2"},
       .traits = {.qk_norm = QkNorm::width, .router_score = RouterScore::sigmoid, .router_bias = true},
       .experts = true,
       .moe_layers_alike = true,
       .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 196608, "num_key_value_heads": 8,
                           "head_dim": 128, "num_local_experts": 256, "num_experts_per_tok": 8})",
       .attention_bias_key = {},
       .read = read_minimax_m2,
       .write = write_minimax_m2,
       .map_weights = map_minimax_m2,
       .gguf = {.architecture = "minimax-m2", .names = kMiniMaxNames, .keys = kMiniMaxKeys, .gating = 2}}};
}

}  // namespace ingot::families
