#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"
#include "ingot/models/require.h"

namespace ingot::families {
namespace {

// YaRN lengthens scores, too: by its mscale once for queries and once for keys.
void scale_scores(LanguageConfig& c) {
  const RopeScaling& rope = c.rope_scaling;
  if (rope.type == "default" || rope.mscale_all_dim == 0 || rope.factor <= 1) return;
  const double mscale = 0.1 * rope.mscale_all_dim * std::log(rope.factor) + 1;
  c.attention_multiplier =
      mscale * mscale / std::sqrt(static_cast<double>(c.qk_nope_head_dim + c.qk_rope_head_dim));
}

// One way of choosing experts is known; `what` tells another in a file.
void require_method(const ConfigFile& file, const char* key, const char* known) {
  std::string method = known;
  file.read(key, method);
  INGOT_CHECK(method == known,
              NotImplemented(fmt::format("{}: {} '{}' ({} is)", file.path(), key, method, known)));
}

void read_deepseek(const ConfigFile& file, LanguageConfig& c) {
  std::int64_t every = 1;
  file.read("moe_layer_freq", every);
  INGOT_CHECK(every == 1, NotImplemented(fmt::format("{}: moe_layer_freq {} (1 is)", file.path(), every)));
  read_deepseek_experts(file, c);
  file.read("kv_lora_rank", c.kv_lora_rank);
  file.read("q_lora_rank", c.q_lora_rank);
  file.read("qk_nope_head_dim", c.qk_nope_head_dim);
  file.read("qk_rope_head_dim", c.qk_rope_head_dim);
  file.read("v_head_dim", c.v_head_dim);
  require_size(c.kv_lora_rank, "kv_lora_rank");
  scale_scores(c);
}

void write_deepseek(const LanguageConfig& c, nlohmann::ordered_json& json) {
  write_deepseek_experts(c, json);
  json["kv_lora_rank"] = c.kv_lora_rank;
  json["q_lora_rank"] = c.q_lora_rank > 0 ? nlohmann::ordered_json(c.q_lora_rank) : nullptr;
  json["qk_nope_head_dim"] = c.qk_nope_head_dim;
  json["qk_rope_head_dim"] = c.qk_rope_head_dim;
  json["v_head_dim"] = c.v_head_dim;
  json["head_dim"] = c.qk_rope_head_dim;  // as transformers writes it
}

void read_deepseek_v2(const ConfigFile& file, LanguageConfig& c) {
  std::string method = "greedy";
  file.read("topk_method", method);
  INGOT_CHECK(method == "greedy" || method == "group_limited_greedy",
              NotImplemented(fmt::format("{}: topk_method '{}' (greedy and group_limited_greedy are)",
                                         file.path(), method)));
  INGOT_CHECK(!c.norm_topk_prob,
              NotImplemented(file.path() + ": norm_topk_prob true in a deepseek_v2 model (false is; "
                                           "transformers and DeepSeek's own program differ in the other)"));
  require_method(file, "scoring_func", "softmax");
  read_deepseek(file, c);
  if (method == "greedy") c.n_group = c.topk_group = 1;
}

void write_deepseek_v2(const LanguageConfig& c, nlohmann::ordered_json& json) {
  write_deepseek(c, json);
  json["topk_method"] = c.n_group == c.topk_group ? "greedy" : "group_limited_greedy";
}

void read_deepseek_v3(const ConfigFile& file, LanguageConfig& c) {
  require_method(file, "topk_method", "noaux_tc");
  require_method(file, "scoring_func", "sigmoid");
  file.read("rope_interleave", c.interleaved_rope);
  read_deepseek(file, c);
}

void write_deepseek_v3(const LanguageConfig& c, nlohmann::ordered_json& json) {
  write_deepseek(c, json);
  json["rope_interleave"] = c.interleaved_rope;
  json["num_nextn_predict_layers"] = 0;
}

// Which layers are dense is a list of all here, and transformers reads no count of the first that are.
void read_glm4_moe_lite(const ConfigFile& file, LanguageConfig& c) {
  read_deepseek_v3(file, c);
  std::vector<std::string> kinds;
  file.read("mlp_layer_types", kinds);
  if (kinds.empty()) {
    kinds.assign(static_cast<std::size_t>(c.num_hidden_layers), "sparse");
    kinds.front() = "dense";
  }
  require(static_cast<std::int64_t>(kinds.size()) == c.num_hidden_layers, "mlp_layer_types",
          fmt::format("names {} layers of num_hidden_layers {}", kinds.size(), c.num_hidden_layers));
  c.mlp_only_layers.clear();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    require(kinds[i] == "dense" || kinds[i] == "sparse", "mlp_layer_types",
            fmt::format("layer {} is '{}'; expected dense or sparse", i, kinds[i]));
    if (kinds[i] == "dense") c.mlp_only_layers.push_back(static_cast<std::int64_t>(i));
  }
}

void write_glm4_moe_lite(const LanguageConfig& c, nlohmann::ordered_json& json) {
  write_deepseek_v3(c, json);
  std::vector<std::string> kinds;
  kinds.reserve(static_cast<std::size_t>(c.num_hidden_layers));
  for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer)
    kinds.emplace_back(c.is_sparse(layer) ? "sparse" : "dense");
  json["mlp_layer_types"] = kinds;
}

void map_deepseek(const LanguageConfig& c, WeightMap& map) {
  map_deepseek_experts(c, map);
  // Layers that predict further tokens, behind those of the model.
  map.ignored.push_back(fmt::format("model.layers.{}.*", c.num_hidden_layers));
}

// Written are files of the first generation, with kv_b_proj whole, which llama.cpp reads as those of today.
constexpr auto kDeepseekNames =
    kOuter + kMlp + kMlpNorm + kExperts + kSharedExperts +
    std::array<GgufNameRule, 10>{{{"blk.*.attn_q", "model.layers.*.self_attn.q_proj"},
                                  {"blk.*.attn_q_a", "model.layers.*.self_attn.q_a_proj"},
                                  {"blk.*.attn_q_a_norm", "model.layers.*.self_attn.q_a_layernorm"},
                                  {"blk.*.attn_q_b", "model.layers.*.self_attn.q_b_proj"},
                                  {"blk.*.attn_kv_a_mqa", "model.layers.*.self_attn.kv_a_proj_with_mqa"},
                                  {"blk.*.attn_kv_a_norm", "model.layers.*.self_attn.kv_a_layernorm"},
                                  {"blk.*.attn_kv_b", "model.layers.*.self_attn.kv_b_proj"},
                                  {"blk.*.attn_k_b", "model.layers.*.self_attn.kv_b_proj", latent_keys},
                                  {"blk.*.attn_v_b", "model.layers.*.self_attn.kv_b_proj", latent_values},
                                  {"blk.*.attn_output", "model.layers.*.self_attn.o_proj"}}};
constexpr std::array<GgufKeyRule, 2> kLatentKeys{
    {{"attention.kv_lora_rank", "kv_lora_rank"}, {"attention.q_lora_rank", "q_lora_rank"}}};
// Groups are judged there as in V3.
constexpr auto kDeepseekV2Keys =
    kLlamaKeys + kLatentKeys +
    std::array<GgufKeyRule, 4>{{{"expert_count", "n_routed_experts"},
                                {"expert_shared_count", "n_shared_experts"},
                                {"leading_dense_block_count", "first_k_dense_replace"},
                                {"expert_weights_scale", "routed_scaling_factor", number}}};
constexpr auto kDeepseekV3Keys = kDeepseekExpertKeys + kLatentKeys;

}  // namespace

std::vector<LanguageFamily> deepseek() {
  return {
      {.model_type = "deepseek_v2",
       .architecture = "DeepseekV2ForCausalLM",
       .summary = "DeepSeek V2: multi-head latent attention, shared and routed experts",
       .variants = {"queries with a latent or without", "greedy or in groups", "YaRN", "attention biases"},
       .repositories = {"deepseek-ai/DeepSeek-V2-Lite-Chat", "deepseek-ai/DeepSeek-V2.5"},
       .traits = {.interleaved_rope = true, .group_judges = 1, .latent_attention = true},
       .experts = true,
       .defaults = R"({"rms_norm_eps": 1e-6, "n_routed_experts": 64, "n_shared_experts": 2,
                       "norm_topk_prob": false, "moe_intermediate_size": 1407, "kv_lora_rank": 512,
                       "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
                       "v_head_dim": 128})",
       .mlp_bias_key = "mlp_bias",
       .read = read_deepseek_v2,
       .write = write_deepseek_v2,
       .map_weights = map_deepseek,
       .gguf = {.architecture = "deepseek2", .names = kDeepseekNames, .keys = kDeepseekV2Keys, .gating = 1}},
      {.model_type = "deepseek_v3",
       .architecture = "DeepseekV3ForCausalLM",
       .summary = "DeepSeek V3 and R1, Kimi K2, Moonlight: latent attention, experts chosen by sigmoids",
       .variants = {"queries with a latent or without", "groups of experts", "YaRN", "attention biases",
                    "rope_interleave"},
       .repositories = {"deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-R1-0528",
                        "moonshotai/Moonlight-16B-A3B-Instruct"},
       .traits = {.interleaved_rope = true,
                  .router_score = RouterScore::sigmoid,
                  .router_bias = true,
                  .latent_attention = true},
       .experts = true,
       .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 4096, "n_routed_experts": 256,
                       "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
                       "first_k_dense_replace": 3, "n_group": 8, "topk_group": 4,
                       "routed_scaling_factor": 2.5, "norm_topk_prob": true, "kv_lora_rank": 512,
                       "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
                       "v_head_dim": 128})",
       .read = read_deepseek_v3,
       .write = write_deepseek_v3,
       .map_weights = map_deepseek,
       .gguf = {.architecture = "deepseek2", .names = kDeepseekNames, .keys = kDeepseekV3Keys, .gating = 2}},
      {.model_type = "glm4_moe_lite",
       .architecture = "Glm4MoeLiteForCausalLM",
       .summary = "GLM-4.7-Flash: DeepSeek V3's latent attention and experts in GLM's proportions",
       .variants = {"any layers dense", "queries with a latent or without", "groups of experts",
                    "attention biases", "rope_interleave"},
       .repositories = {"zai-org/GLM-4.7-Flash"},
       .traits = {.interleaved_rope = true,
                  .router_score = RouterScore::sigmoid,
                  .router_bias = true,
                  .latent_attention = true},
       .experts = true,
       .defaults = R"({"max_position_embeddings": 202752, "n_routed_experts": 64, "n_shared_experts": 1,
                       "num_experts_per_tok": 4, "moe_intermediate_size": 1536,
                       "routed_scaling_factor": 1.8, "norm_topk_prob": true, "kv_lora_rank": 512,
                       "q_lora_rank": 768, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
                       "v_head_dim": 256})",
       .read = read_glm4_moe_lite,
       .write = write_glm4_moe_lite,
       .map_weights = map_deepseek,
       .gguf = {.architecture = "deepseek2", .names = kDeepseekNames, .keys = kDeepseekV3Keys, .gating = 2}},
  };
}

}  // namespace ingot::families
