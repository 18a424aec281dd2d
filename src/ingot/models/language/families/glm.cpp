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

constexpr std::array<GgufNameRule, 2> kFusedMlp{{{"blk.*.ffn_up", "model.layers.*.mlp.gate_up_proj"},
                                                 {"blk.*.ffn_down", "model.layers.*.mlp.down_proj"}}};
constexpr auto kGlmNames = kOuter + kAttention + kMlpNorm + kFusedMlp;
constexpr auto kGlm4Names =
    kOuter + kAttention + kMlpNorm + kFusedMlp +
    std::array<GgufNameRule, 2>{{{"blk.*.post_attention_norm", "model.layers.*.post_self_attn_layernorm"},
                                 {"blk.*.post_ffw_norm", "model.layers.*.post_mlp_layernorm"}}};

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
  };
}

}  // namespace ingot::families
