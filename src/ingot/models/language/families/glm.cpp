#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

constexpr std::string_view kDefaults =
    R"({"rms_norm_eps": 1.5625e-7, "max_position_embeddings": 131072, "num_key_value_heads": 2,
        "head_dim": 128, "partial_rotary_factor": 0.5})";
constexpr DecoderTraits kGlm{.qkv_bias = true, .interleaved_rope = true};

DecoderTraits glm4_traits() {
  DecoderTraits traits = kGlm;
  traits.norm_placement = NormPlacement::sandwich;
  return traits;
}

void read_glm(const ConfigFile& /*file*/, LanguageConfig& c) { c.attention_output_bias = false; }

// Gate and up are one matrix.
void map_glm(const LanguageConfig& c, WeightMap& map) {
  map_rows(map, "mlp.gate_proj", "mlp.gate_up_proj", 0, c.intermediate_size);
  map_rows(map, "mlp.up_proj", "mlp.gate_up_proj", c.intermediate_size, c.intermediate_size);
}

void map_glm4(const LanguageConfig& c, WeightMap& map) {
  map_glm(c, map);
  map_name(map, "post_attention_layernorm", "post_self_attn_layernorm");
  map_name(map, "pre_feedforward_layernorm", "post_attention_layernorm");
  map_name(map, "post_feedforward_layernorm", "post_mlp_layernorm");
}

void read_glm4_moe(const ConfigFile& file, LanguageConfig& c) {
  read_glm(file, c);
  read_deepseek_experts(file, c);
  bool norms = false;
  file.read("use_qk_norm", norms);
  c.qk_norm = norms ? QkNorm::head : QkNorm::none;
}

void write_glm4_moe(const LanguageConfig& c, nlohmann::ordered_json& json) {
  write_deepseek_experts(c, json);
  json["use_qk_norm"] = c.qk_norm != QkNorm::none;
}

void map_glm4_moe(const LanguageConfig& c, WeightMap& map) {
  map_deepseek_experts(c, map);
  // Layers that predict further tokens, behind those of the model.
  map.ignored.push_back(fmt::format("model.layers.{}.*", c.num_hidden_layers));
}

constexpr std::array<GgufNameRule, 2> kFusedMlp{{{"blk.*.ffn_up", "model.layers.*.mlp.gate_up_proj"},
                                                 {"blk.*.ffn_down", "model.layers.*.mlp.down_proj"}}};
constexpr auto kGlmNames = kOuter + kAttention + kMlpNorm + kFusedMlp;
constexpr auto kGlm4Names =
    kOuter + kAttention + kMlpNorm + kFusedMlp +
    std::array<GgufNameRule, 2>{{{"blk.*.post_attention_norm", "model.layers.*.post_self_attn_layernorm"},
                                 {"blk.*.post_ffw_norm", "model.layers.*.post_mlp_layernorm"}}};

constexpr auto kGlm4MoeNames =
    kOuter + kAttention + kMlp + kHeadNorms + kExperts + kSharedExperts +
    std::array<GgufNameRule, 1>{{{"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm"}}};

}  // namespace

std::vector<LanguageFamily> glm() {
  return {
      {.model_type = "glm",
       .architecture = "GlmForCausalLM",
       .summary = "GLM-4, first generation, and GLM-Edge: interleaved partial RoPE",
       .variants = {"fused gate and up", "attention biases or none"},
       .repositories = {"zai-org/glm-4-9b-chat-hf", "zai-org/glm-edge-1.5b-chat"},
       .traits = kGlm,
       .defaults = kDefaults,
       .read = read_glm,
       .map_weights = map_glm,
       .gguf = {.architecture = "chatglm", .names = kGlmNames, .keys = kLlamaKeys}},
      {.model_type = "glm4",
       .architecture = "Glm4ForCausalLM",
       .summary = "GLM-4-0414: GLM with norms behind attention and MLP",
       .variants = {"fused gate and up", "attention biases or none"},
       .repositories = {"zai-org/GLM-4-9B-0414", "zai-org/GLM-4-32B-0414"},
       .traits = glm4_traits(),
       .defaults = kDefaults,
       .read = read_glm,
       .map_weights = map_glm4,
       .gguf = {.architecture = "glm4", .names = kGlm4Names, .keys = kLlamaKeys}},
      {.model_type = "glm4_moe",
       .architecture = "Glm4MoeForCausalLM",
       .summary = "GLM-4.5 and 4.6: a mixture of experts routed as DeepSeek V3's, partial RoPE",
       .variants = {"first layers dense", "groups of experts", "norms of heads", "attention biases"},
       .repositories = {"zai-org/GLM-4.5-Air", "zai-org/GLM-4.6"},
       .traits = {.router_score = RouterScore::sigmoid, .router_bias = true},
       .experts = true,
       .defaults = R"({"max_position_embeddings": 131072, "num_key_value_heads": 8,
                       "partial_rotary_factor": 0.5, "n_routed_experts": 128, "n_shared_experts": 1,
                       "num_experts_per_tok": 8, "moe_intermediate_size": 1408, "first_k_dense_replace": 1,
                       "norm_topk_prob": true})",
       .read = read_glm4_moe,
       .write = write_glm4_moe,
       .map_weights = map_glm4_moe,
       .gguf = {.architecture = "glm4moe", .names = kGlm4MoeNames, .keys = kDeepseekExpertKeys, .gating = 2}},
  };
}

}  // namespace ingot::families
