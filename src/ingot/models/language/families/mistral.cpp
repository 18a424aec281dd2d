#include <array>

#include <nlohmann/json.hpp>

#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

void write_mixtral(const LanguageConfig& c, nlohmann::ordered_json& json) {
  for (const char* key :
       {"num_experts", "moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers"}) {
    json.erase(key);  // all its layers are alike
  }
  json["num_local_experts"] = c.num_experts;
}

void map_mixtral(const LanguageConfig& c, WeightMap& map) {
  map_experts(c, map, "block_sparse_moe", "w1", "w3", "w2");
}

void read_ministral3(const ConfigFile& file, LanguageConfig& c) {
  const auto rope = file.object(file.has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  if (rope.has_value()) rope->read("llama_4_scaling_beta", c.query_position_scale);
}

void write_ministral3(const LanguageConfig& c, nlohmann::ordered_json& json) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!json.contains(key)) continue;
    json[key]["llama_4_scaling_beta"] = c.query_position_scale;
    json[key]["original_max_position_embeddings"] = c.rope_scaling.original_max_position_embeddings;
  }
}

constexpr auto kMixtralNames =
    kOuter + kPairedAttention + kMlpNorm +
    std::array<GgufNameRule, 4>{
        {{"blk.*.ffn_gate_inp", "model.layers.*.block_sparse_moe.gate"},
         {"blk.*.ffn_gate_exps", "model.layers.*.block_sparse_moe.experts.#.w1", experts},
         {"blk.*.ffn_up_exps", "model.layers.*.block_sparse_moe.experts.#.w3", experts},
         {"blk.*.ffn_down_exps", "model.layers.*.block_sparse_moe.experts.#.w2", experts}}};

constexpr auto kMixtralKeys =
    kLlamaKeys + std::array<GgufKeyRule, 1>{{{"expert_count", "num_local_experts"}}};

}  // namespace

std::vector<LanguageFamily> mistral() {
  return {
      {.model_type = "mistral",
       .architecture = "MistralForCausalLM",
       .more_architectures = {"Mistral3ForConditionalGeneration"},
       .text_part_of = {"mistral3"},
       .summary = "Mistral 7B and its kin",
       .variants = {"sliding window or none", "heads of any size",
                    "text alone, or the text part of a model that also sees"},
       .repositories = {"mistralai/Mistral-7B-v0.1", "mistralai/Mistral-7B-Instruct-v0.3",
                        "mistralai/Mistral-Nemo-Base-2407"},
       .defaults = R"({"rms_norm_eps": 1e-6, "num_key_value_heads": 8, "sliding_window": 4096,
                       "max_position_embeddings": 131072})",
       .gguf = {.architecture = "llama", .names = kLlamaNames, .keys = kLlamaKeys}},
      {.model_type = "ministral",
       .architecture = "MinistralForCausalLM",
       .summary = "Ministral 8B: Mistral with sliding and full layers",
       .variants = {"layer_types, or all layers slide"},
       .repositories = {"mistralai/Ministral-8B-Instruct-2410"},
       .defaults = R"({"rms_norm_eps": 1e-6, "num_key_value_heads": 8, "sliding_window": 4096,
                       "max_position_embeddings": 131072})",
       .attention_bias_key = {}},
      {.model_type = "ministral3",
       .architecture = "Ministral3ForCausalLM",
       .summary = "Ministral 3: Mistral with queries that grow with their position",
       .variants = {"sliding window or none", "YaRN",
                    "text alone, or the text part of a model that also sees"},
       .repositories = {"mistralai/Ministral-3-3B-Instruct-2512", "mistralai/Ministral-3-8B-Base-2512"},
       .defaults = R"({"num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 262144,
                       "rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0,
                         "original_max_position_embeddings": 16384, "beta_fast": 32.0, "beta_slow": 1.0,
                         "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1}})",
       .attention_bias_key = {},
       .read = read_ministral3,
       .write = write_ministral3,
       .gguf = {.architecture = "mistral3", .names = kLlamaNames, .keys = kLlamaKeys}},
      {.model_type = "mixtral",
       .architecture = "MixtralForCausalLM",
       .summary = "Mixtral, mixture of experts",
       .variants = {"sliding window or none"},
       .repositories = {"mistralai/Mixtral-8x7B-v0.1", "mistralai/Mixtral-8x22B-v0.1"},
       .experts = true,
       .moe_layers_alike = true,
       .defaults = R"({"num_key_value_heads": 8, "max_position_embeddings": 131072,
                       "rope_theta": 1000000.0, "num_local_experts": 8, "num_experts_per_tok": 2})",
       .write = write_mixtral,
       .map_weights = map_mixtral,
       .gguf = {.architecture = "llama", .names = kMixtralNames, .keys = kMixtralKeys}},
  };
}

}  // namespace ingot::families
