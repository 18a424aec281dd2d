#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

constexpr auto kPhiNames =
    kOuter + kMlpNorm +
    std::array<GgufNameRule, 4>{{{"blk.*.attn_qkv", "model.layers.*.self_attn.qkv_proj"},
                                 {"blk.*.attn_output", "model.layers.*.self_attn.o_proj"},
                                 {"blk.*.ffn_up", "model.layers.*.mlp.gate_up_proj"},
                                 {"blk.*.ffn_down", "model.layers.*.mlp.down_proj"}}};

void read_phi(const ConfigFile& file, LanguageConfig& c) {
  RopeScaling& rope = c.rope_scaling;
  file.read("original_max_position_embeddings", rope.original_max_position_embeddings);
  if (rope.type == "su" || rope.type == "yarn") rope.type = "longrope";  // its names in Phi-3's first files
}

void write_phi(const LanguageConfig& c, nlohmann::ordered_json& json) {
  json["original_max_position_embeddings"] = c.rope_scaling.original_max_position_embeddings;
  json["partial_rotary_factor"] = c.partial_rotary_factor;
}

// Phi-3 fuses query, key and value, and gate and up.
void map_phi(const LanguageConfig& c, WeightMap& map) {
  const std::int64_t query = c.num_attention_heads * c.head_dim, key = c.num_key_value_heads * c.head_dim;
  map_rows(map, "self_attn.q_proj", "self_attn.qkv_proj", 0, query);
  map_rows(map, "self_attn.k_proj", "self_attn.qkv_proj", query, key);
  map_rows(map, "self_attn.v_proj", "self_attn.qkv_proj", query + key, key);
  map_rows(map, "mlp.gate_proj", "mlp.gate_up_proj", 0, c.intermediate_size);
  map_rows(map, "mlp.up_proj", "mlp.gate_up_proj", c.intermediate_size, c.intermediate_size);
}

void read_phi2(const ConfigFile& file, LanguageConfig& /*config*/) {
  bool qk_norm = false;
  file.read("qk_layernorm", qk_norm);
  INGOT_CHECK(!qk_norm, NotImplemented(file.path() + ": qk_layernorm true (false is)"));
}

void map_phi2(const LanguageConfig& /*config*/, WeightMap& map) {
  map_tensor(map, "model.norm", "model.final_layernorm");
  map_name(map, "self_attn.o_proj", "self_attn.dense");
  map_name(map, "mlp.up_proj", "mlp.fc1");
  map_name(map, "mlp.down_proj", "mlp.fc2");
}

constexpr std::array<GgufNameRule, 10> kPhi2Names{{{"token_embd", "model.embed_tokens"},
                                                   {"output_norm", "model.final_layernorm"},
                                                   {"output", "lm_head"},
                                                   {"blk.*.attn_norm", "model.layers.*.input_layernorm"},
                                                   {"blk.*.attn_q", "model.layers.*.self_attn.q_proj"},
                                                   {"blk.*.attn_k", "model.layers.*.self_attn.k_proj"},
                                                   {"blk.*.attn_v", "model.layers.*.self_attn.v_proj"},
                                                   {"blk.*.attn_output", "model.layers.*.self_attn.dense"},
                                                   {"blk.*.ffn_up", "model.layers.*.mlp.fc1"},
                                                   {"blk.*.ffn_down", "model.layers.*.mlp.fc2"}}};

// SparseMixer, and LongRoPE with a factor of cos and sin for short texts and one for long ones. Long texts
// have the long factors, as in transformers 4 and Microsoft's program; transformers 5 computes them, too, and
// then takes the short ones. Noise of inputs (input_jitter_noise) is for training alone, and left out.
void read_phimoe(const ConfigFile& file, LanguageConfig& c) {
  RopeScaling& rope = c.rope_scaling;
  if (rope.type == "su") rope.type = "longrope";
  INGOT_CHECK(rope.type == "default" || rope.type == "longrope",
              NotImplemented(fmt::format("{}: rope_type '{}' in a phimoe model (default and longrope are)",
                                         file.path(), rope.type)));
  if (rope.original_max_position_embeddings == 0)
    file.read("original_max_position_embeddings", rope.original_max_position_embeddings);
  file.read("router_jitter_noise", c.router_jitter_noise);
  file.read("lm_head_bias", c.head_bias);
}

void write_phimoe(const LanguageConfig& c, nlohmann::ordered_json& json) {
  for (const char* key :
       {"num_experts", "moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers"})
    json.erase(key);  // all its layers are alike
  json["num_local_experts"] = c.num_experts;
  json["router_jitter_noise"] = c.router_jitter_noise;
  json["lm_head_bias"] = c.head_bias;
  if (c.rope_scaling.type == "longrope")
    json["original_max_position_embeddings"] = c.rope_scaling.original_max_position_embeddings;
}

void map_phimoe(const LanguageConfig& c, WeightMap& map) {
  map_experts(c, map, "block_sparse_moe", "w1", "w3", "w2");
}

constexpr auto kPhimoeNames = kOuter + kAttention + kMlpNorm + kBlockExperts;
constexpr auto kPhimoeKeys = kLlamaKeys + std::array<GgufKeyRule, 1>{{{"expert_count", "num_local_experts"}}};

}  // namespace

std::vector<LanguageFamily> phi() {
  return {
      {.model_type = "phi3",
       .architecture = "Phi3ForCausalLM",
       .summary = "Phi 3 and 3.5, Phi 4",
       .variants = {"fused query, key and value", "LongRoPE", "partial rotary heads"},
       .repositories = {"microsoft/Phi-3-mini-4k-instruct", "microsoft/Phi-3.5-mini-instruct",
                        "microsoft/phi-4", "microsoft/Phi-4-mini-instruct"},
       .defaults = R"({"max_position_embeddings": 4096, "original_max_position_embeddings": 4096})",
       .read = read_phi,
       .write = write_phi,
       .map_weights = map_phi,
       .fused_projections = true,
       .gguf = {.architecture = "phi3", .names = kPhiNames, .keys = kLlamaKeys}},
      {.model_type = "phi",
       .architecture = "PhiForCausalLM",
       .summary = "Phi 1, 1.5 and 2: attention and MLP side by side, partial rotary heads",
       .variants = {"grouped heads"},
       .repositories = {"microsoft/phi-2", "microsoft/phi-1_5"},
       .traits = {.norm = NormKind::layer,
                  .norm_placement = NormPlacement::parallel,
                  .mlp = MlpKind::gelu,
                  .qkv_bias = true,
                  .attention_output_bias = true,
                  .mlp_bias = true,
                  .head_bias = true},
       .defaults = R"({"partial_rotary_factor": 0.5})",
       .norm_eps_key = "layer_norm_eps",
       .attention_bias_key = {},
       .read = read_phi2,
       .map_weights = map_phi2,
       .gguf = {.architecture = "phi2", .names = kPhi2Names, .keys = kLayerNormKeys}},
      {.model_type = "phimoe",
       .architecture = "PhimoeForCausalLM",
       .summary = "Phi 3.5 MoE: SparseMixer chooses two experts; LayerNorm, LongRoPE",
       .variants = {"LongRoPE", "sliding window or none", "attention biases", "head bias",
                    "chooses in training as in inference, without sampling"},
       .repositories = {"microsoft/Phi-3.5-MoE-instruct", "microsoft/Phi-mini-MoE-instruct"},
       .traits = {.norm = NormKind::layer, .router_score = RouterScore::sparse_mixer},
       .experts = true,
       .moe_layers_alike = true,
       .defaults = R"({"num_key_value_heads": 8, "max_position_embeddings": 131072,
                           "rope_theta": 1000000.0, "num_local_experts": 16, "num_experts_per_tok": 2})",
       .read = read_phimoe,
       .write = write_phimoe,
       .map_weights = map_phimoe,
       .gguf = {.architecture = "phimoe", .names = kPhimoeNames, .keys = kPhimoeKeys, .read_only = true}}};
}

}  // namespace ingot::families
