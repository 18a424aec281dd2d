#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

constexpr DecoderTraits kOlmo2{.norm_placement = NormPlacement::post, .qk_norm = QkNorm::width};

void read_olmo(const ConfigFile& file, LanguageConfig& c) { file.read("clip_qkv", c.clip_qkv); }

void write_olmo(const LanguageConfig& c, nlohmann::ordered_json& json) {
  json["clip_qkv"] = c.clip_qkv > 0 ? nlohmann::ordered_json(c.clip_qkv) : nlohmann::ordered_json(nullptr);
}

// Its norms have no parameters, and an epsilon of their own.
void read_olmo1(const ConfigFile& file, LanguageConfig& c) {
  read_olmo(file, c);
  c.norm_eps = 1e-5;
}

// GGUF's files say it.
void write_olmo1(const LanguageConfig& c, nlohmann::ordered_json& json) {
  write_olmo(c, json);
  json.erase("rms_norm_eps");
  json["layer_norm_eps"] = c.norm_eps;
}

void write_olmoe(const LanguageConfig& c, nlohmann::ordered_json& json) {
  write_olmo(c, json);
  json.erase("moe_intermediate_size");  // all its layers are alike
}

void map_olmoe(const LanguageConfig& c, WeightMap& map) {
  map_experts(c, map, "mlp", "gate_proj", "up_proj", "down_proj");
}

constexpr auto kOlmoNames = kEnds + kPairedAttention + kMlp;
constexpr auto kOlmoKeys =
    kLayerNormKeys + std::array<GgufKeyRule, 1>{{{"attention.clamp_kqv", "clip_qkv", number}}};
// Files that do not say it have one period of positions for all layers.
constexpr auto kOlmo3Keys =
    kLlamaKeys + std::array<GgufKeyRule, 1>{{{"rope.freq_base", "rope_local_base_freq", number}}};
constexpr auto kOlmoeNames = kOuter + kAttention + kMlpNorm + kHeadNorms + kExperts;

}  // namespace

std::vector<LanguageFamily> olmo() {
  return {
      {.model_type = "olmo",
       .architecture = "OlmoForCausalLM",
       .summary = "OLMo 1: LayerNorm without parameters",
       .variants = {"attention biases", "clamped queries, keys and values", "every RoPE scaling"},
       .repositories = {"allenai/OLMo-1B-hf", "allenai/OLMo-7B-0724-Instruct-hf"},
       .traits = {.norm = NormKind::layer_plain},
       .read = read_olmo1,
       .write = write_olmo1,
       .gguf = {.architecture = "olmo", .names = kOlmoNames, .keys = kOlmoKeys}},
      {.model_type = "olmo2",
       .architecture = "Olmo2ForCausalLM",
       .summary = "OLMo 2: norms behind attention and MLP alone, and over all heads",
       .variants = {"attention biases", "every RoPE scaling"},
       .repositories = {"allenai/OLMo-2-0425-1B", "allenai/OLMo-2-1124-7B-Instruct"},
       .traits = kOlmo2,
       .gguf = {.architecture = "olmo2", .names = kPostNormNames, .keys = kLlamaKeys}},
      {.model_type = "olmo3",
       .architecture = "Olmo3ForCausalLM",
       .summary = "OLMo 3: OLMo 2 with sliding layers",
       .variants = {"layer_types, or one full layer in four", "scaled RoPE of full layers"},
       .repositories = {"allenai/Olmo-3-1025-7B", "allenai/Olmo-3-7B-Instruct"},
       .traits = kOlmo2,
       .sliding_pattern = 4,
       .defaults = R"({"rope_theta": 500000.0, "rope_local_base_freq": 500000.0, "sliding_window": 4096})",
       .gguf = {.architecture = "olmo2", .names = kPostNormNames, .keys = kOlmo3Keys}},
      {.model_type = "olmoe",
       .architecture = "OlmoeForCausalLM",
       .summary = "OLMoE, mixture of experts: norms of queries and keys over all heads",
       .variants = {"normalized or plain router weights", "attention biases",
                    "clamped queries, keys and values"},
       .repositories = {"allenai/OLMoE-1B-7B-0924", "allenai/OLMoE-1B-7B-0125-Instruct"},
       .traits = {.qk_norm = QkNorm::width},
       .experts = true,
       .moe_layers_alike = true,
       .defaults = R"({"max_position_embeddings": 4096, "num_experts": 64, "num_experts_per_tok": 8,
                       "norm_topk_prob": false, "router_aux_loss_coef": 0.01})",
       .read = read_olmo,
       .write = write_olmoe,
       .map_weights = map_olmoe,
       .gguf = {.architecture = "olmoe",
                .names = kOlmoeNames,
                .keys = kLlamaKeys,
                .fixed = R"({"norm_topk_prob": false})"}},
  };
}

}  // namespace ingot::families
