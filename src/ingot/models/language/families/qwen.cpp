#include <algorithm>
#include <array>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

constexpr auto kQwen3MoeNames = kHeadNormNames + kExperts;
constexpr auto kQwen2MoeNames = kQwen2Names + kExperts + kGatedSharedExpert;

// All layers slide, whatever the other keys say.
void read_qwen3_moe(const ConfigFile& /*file*/, LanguageConfig& c) { c.layer_types.clear(); }

// Every second of the lower layers slides, where a window is used and layer_types does not say.
void read_qwen2_moe(const ConfigFile& file, LanguageConfig& c) {
  c.attention_output_bias = false;
  file.read("shared_expert_intermediate_size", c.shared_expert_intermediate_size);
  if (c.sliding_window == 0 || file.has("layer_types")) return;
  std::int64_t upper = 28;
  file.read("max_window_layers", upper);
  c.layer_types = layers_with_windows(c.num_hidden_layers, 0, c.num_hidden_layers);
  for (std::int64_t i = 0; i < std::min(upper, c.num_hidden_layers); i += 2)
    c.layer_types[static_cast<std::size_t>(i)] = LayerKind::sliding;
}

void write_qwen2_moe(const LanguageConfig& c, nlohmann::ordered_json& json) {
  json["shared_expert_intermediate_size"] = c.shared_expert_intermediate_size;
}

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
      {.model_type = "qwen2_moe",
       .architecture = "Qwen2MoeForCausalLM",
       .summary = "Qwen 1.5 and 2, mixture of experts with a shared one",
       .variants = {"normalized or plain router weights", "dense layers between", "sliding layers"},
       .repositories = {"Qwen/Qwen1.5-MoE-A2.7B", "Qwen/Qwen2-57B-A14B-Instruct"},
       .traits = {.qkv_bias = true, .shared_expert_gate = true},
       .experts = true,
       .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "num_key_value_heads": 16,
                       "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28,
                       "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
                       "norm_topk_prob": false, "shared_expert_intermediate_size": 5632})",
       .attention_bias_key = "qkv_bias",
       .read = read_qwen2_moe,
       .write = write_qwen2_moe,
       .map_weights = map_qwen3_moe,
       .gguf = {.architecture = "qwen2moe",
                .names = kQwen2MoeNames,
                .keys = kGatedSharedExpertKeys,
                .fixed = R"({"norm_topk_prob": false})"}},
      {.model_type = "qwen3",
       .architecture = "Qwen3ForCausalLM",
       .summary = "Qwen 3, dense",
       .variants = {"tied or own head", "attention biases"},
       .repositories = {"Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B"},
       .traits = {.qk_norm = QkNorm::head},
       .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "head_dim": 128,
                       "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28})",
       .gguf = {.architecture = "qwen3", .names = kHeadNormNames, .keys = kLlamaKeys}},
      {.model_type = "qwen3_moe",
       .architecture = "Qwen3MoeForCausalLM",
       .summary = "Qwen 3, mixture of experts",
       .variants = {"normalized or plain router weights", "dense layers between"},
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
