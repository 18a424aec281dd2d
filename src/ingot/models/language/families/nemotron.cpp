#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {

namespace {

constexpr auto kNemotronNames =
    kAttention + kPlainMlp +
    std::array<GgufNameRule, 5>{{{"token_embd", "model.embed_tokens"},
                                 {"output", "lm_head"},
                                 {"output_norm", "model.norm", plus_one},
                                 {"blk.*.attn_norm", "model.layers.*.input_layernorm", plus_one},
                                 {"blk.*.ffn_norm", "model.layers.*.post_attention_layernorm", plus_one}}};
constexpr auto kJais2Names = kOuter + kAttention + kMlpNorm + kPlainMlp;
constexpr auto kNemotronKeys =
    kCommonKeys + std::array<GgufKeyRule, 1>{{{"attention.layer_norm_epsilon", "norm_eps", number}}};

}  // namespace

std::vector<LanguageFamily> nemotron() {
  return {
      {.model_type = "nemotron",
       .architecture = "NemotronForCausalLM",
       .summary = "Nemotron-4 and Minitron: LayerNorm times 1 + weight, squared ReLU",
       .variants = {"attention and MLP biases", "partial rotary heads"},
       .repositories = {"nvidia/Minitron-4B-Base", "nvidia/Nemotron-4-Mini-Hindi-4B-Base"},
       .traits = {.norm = NormKind::layer, .mlp = MlpKind::relu2, .norm_unit_offset = true},
       .defaults = R"({"norm_eps": 1e-5, "max_position_embeddings": 4096, "partial_rotary_factor": 0.5})",
       .norm_eps_key = "norm_eps",
       .mlp_bias_key = "mlp_bias",
       .gguf = {.architecture = "nemotron", .names = kNemotronNames, .keys = kNemotronKeys}},
      {.model_type = "jais2",
       .architecture = "Jais2ForCausalLM",
       .summary = "Jais 2: LayerNorm, biases, squared ReLU",
       .variants = {"attention and MLP biases or none"},
       .repositories = {"inceptionai/Jais-2-8B-Chat"},
       .traits = {.norm = NormKind::layer,
                  .mlp = MlpKind::relu2,
                  .qkv_bias = true,
                  .attention_output_bias = true,
                  .mlp_bias = true},
       .defaults = R"({"layer_norm_eps": 1e-5, "max_position_embeddings": 8192})",
       .norm_eps_key = "layer_norm_eps",
       .mlp_bias_key = "mlp_bias",
       .gguf = {.architecture = "jais2", .names = kJais2Names, .keys = kLayerNormKeys}},
  };
}

}  // namespace ingot::families
