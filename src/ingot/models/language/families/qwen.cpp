#include <array>

#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

constexpr auto kQwen3Names = kQwen2Names + kHeadNorms;
constexpr auto kQwen3MoeNames =
    kQwen3Names +
    std::array<GgufNameRule, 4>{{{"blk.*.ffn_gate_inp", "model.layers.*.mlp.gate"},
                                 {"blk.*.ffn_gate_exps", "model.layers.*.mlp.experts.#.gate_proj", experts},
                                 {"blk.*.ffn_up_exps", "model.layers.*.mlp.experts.#.up_proj", experts},
                                 {"blk.*.ffn_down_exps", "model.layers.*.mlp.experts.#.down_proj", experts}}};

// All layers slide, whatever the other keys say.
void read_qwen3_moe(const ConfigFile& /*file*/, LanguageConfig& c) { c.layer_types.clear(); }

void map_qwen3_moe(const LanguageConfig& c, WeightMap& map) {
  map_experts(c, map, "mlp", "gate_proj", "up_proj", "down_proj");
}

}  // namespace

std::vector<LanguageFamily> qwen() {
  return {
      {.model_type = "qwen2",
       .architecture = "Qwen2ForCausalLM",
       .summary = "Qwen 2 and 2.5",
       .variants = {"tied or own head", "sliding upper layers", "YaRN"},
       .repositories = {"Qwen/Qwen2-0.5B", "Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-Coder-7B"},
       .traits = {.qkv_bias = true},
       .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "use_sliding_window": false,
                       "sliding_window": 4096, "max_window_layers": 28})",
       .attention_bias_key = {},
       .gguf = {.architecture = "qwen2", .names = kQwen2Names, .keys = kLlamaKeys}},
      {.model_type = "qwen3",
       .architecture = "Qwen3ForCausalLM",
       .summary = "Qwen 3, dense",
       .variants = {"tied or own head", "attention biases"},
       .repositories = {"Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B"},
       .traits = {.qk_norm = QkNorm::head},
       .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "head_dim": 128,
                       "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28})",
       .gguf = {.architecture = "qwen3", .names = kQwen3Names, .keys = kLlamaKeys}},
      {.model_type = "qwen3_moe",
       .architecture = "Qwen3MoeForCausalLM",
       .summary = "Qwen 3, mixture of experts",
       .variants = {"normalised or plain router weights", "dense layers between"},
       .repositories = {"Qwen/Qwen3-30B-A3B"},
       .traits = {.qk_norm = QkNorm::head},
       .experts = true,
       .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "num_key_value_heads": 4,
                       "use_sliding_window": false, "sliding_window": 4096, "num_local_experts": 128,
                       "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": false})",
       .read = read_qwen3_moe,
       .map_weights = map_qwen3_moe,
       .gguf = {.architecture = "qwen3moe",
                .names = kQwen3MoeNames,
                .keys = kLlamaKeys,
                .fixed = R"({"norm_topk_prob": true})"}},
  };
}

}  // namespace ingot::families
