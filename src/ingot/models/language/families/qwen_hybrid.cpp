#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"
#include "ingot/models/require.h"

namespace ingot::families {
namespace {

using Json = nlohmann::ordered_json;

// layer_types, or every full_attention_interval-th layer attends.
void read_delta_layers(const ConfigFile& file, LanguageConfig& c) {
  require_size(c.num_hidden_layers, "num_hidden_layers", kMaxModelLayers);  // before as many are listed
  std::vector<std::string> types;
  file.read("layer_types", types);
  c.layer_types.clear();
  for (const std::string& type : types) {
    INGOT_CHECK(type == "linear_attention" || type == "full_attention",
                NotImplemented(fmt::format("{}: layer type '{}' in a {} model (linear_attention and "
                                           "full_attention are)",
                                           file.path(), type, c.model_type)));
    c.layer_types.push_back(type == "linear_attention" ? LayerKind::delta : LayerKind::full);
  }
  std::int64_t interval = 4;
  file.read("full_attention_interval", interval);
  require(interval > 0, "full_attention_interval", fmt::format("must be positive, got {}", interval));
  for (std::int64_t i = 0; types.empty() && i < c.num_hidden_layers; ++i)
    c.layer_types.push_back((i + 1) % interval == 0 ? LayerKind::full : LayerKind::delta);
  if (!c.has_kind(LayerKind::delta)) c.layer_types.clear();
}

void read_delta_rule(const ConfigFile& file, LanguageConfig& c) {
  read_delta_layers(file, c);
  file.read("linear_conv_kernel_dim", c.conv_L_cache);
  file.read("linear_num_key_heads", c.linear_num_key_heads);
  file.read("linear_num_value_heads", c.linear_num_value_heads);
  file.read("linear_key_head_dim", c.linear_key_head_dim);
  file.read("linear_value_head_dim", c.linear_value_head_dim);
}

void write_delta_rule(const LanguageConfig& c, Json& json) {
  json.erase("sliding_window");
  if (!json.contains("layer_types"))
    json["layer_types"] =
        std::vector<std::string>(static_cast<std::size_t>(c.num_hidden_layers), "full_attention");
  if (!c.has_kind(LayerKind::delta)) return;
  json["linear_conv_kernel_dim"] = c.conv_L_cache;
  json["linear_num_key_heads"] = c.linear_num_key_heads;
  json["linear_num_value_heads"] = c.linear_num_value_heads;
  json["linear_key_head_dim"] = c.linear_key_head_dim;
  json["linear_value_head_dim"] = c.linear_value_head_dim;
}

void read_qwen3_next(const ConfigFile& file, LanguageConfig& c) {
  read_delta_rule(file, c);
  file.read("shared_expert_intermediate_size", c.shared_expert_intermediate_size);
}

void write_qwen3_next(const LanguageConfig& c, Json& json) {
  write_delta_rule(c, json);
  json["num_experts"] = c.num_experts;  // its default is many
  if (c.num_experts > 0) json["shared_expert_intermediate_size"] = c.shared_expert_intermediate_size;
}

// All layers have experts, and the weights of those chosen always add up to 1.
void read_qwen3_5_moe(const ConfigFile& file, LanguageConfig& c) {
  read_qwen3_next(file, c);
  c.norm_topk_prob = true;
  c.decoder_sparse_step = 1;
  c.mlp_only_layers.clear();
  c.intermediate_size = c.moe_intermediate_size;
}

void write_qwen3_5_moe(const LanguageConfig& c, Json& json) {
  write_qwen3_next(c, json);
  for (const char* key : {"intermediate_size", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers"})
    json.erase(key);
}

// Queries stand with their gates, head by head.
void map_gated_attention(const LanguageConfig& c, WeightMap& map) {
  const std::string attention = "model.layers.*.self_attn.";
  for (const auto& [ours, first] : {std::pair{"q_proj", std::int64_t{0}}, {"gate_proj", c.head_dim}})
    map_tensor(map, attention + ours, attention + "q_proj",
               {.first = first, .rows = c.head_dim, .groups = c.num_attention_heads});
  map.ignored.insert(map.ignored.end(), {"mtp.*", "model.mtp.*", "visual.*", "model.visual.*"});
}

// Queries, keys, values and gates of a key head's heads one below the other, and then the next key head's.
void map_qwen3_next(const LanguageConfig& c, WeightMap& map) {
  map_gated_attention(c, map);
  if (c.num_experts > 0) map_experts(c, map, "mlp", "gate_proj", "up_proj", "down_proj");
  if (!c.has_kind(LayerKind::delta)) return;
  const std::int64_t groups = c.linear_num_key_heads, heads = c.linear_num_value_heads / groups,
                     key = c.linear_key_head_dim, values = heads * c.linear_value_head_dim;
  const std::string delta = "model.layers.*.linear_attn.";
  const auto part = [&](const char* ours, const char* theirs, std::int64_t first, std::int64_t rows) {
    map_tensor(map, delta + ours, delta + theirs, {.first = first, .rows = rows, .groups = groups});
  };
  part("in_proj_q", "in_proj_qkvz", 0, key);
  part("in_proj_k", "in_proj_qkvz", key, key);
  part("in_proj_v", "in_proj_qkvz", 2 * key, values);
  part("in_proj_z", "in_proj_qkvz", 2 * key + values, values);
  part("in_proj_b", "in_proj_ba", 0, heads);
  part("in_proj_a", "in_proj_ba", heads, heads);
}

void map_qwen3_5(const LanguageConfig& c, WeightMap& map) {
  map_gated_attention(c, map);
  if (!c.has_kind(LayerKind::delta)) return;
  const std::int64_t keys = c.linear_num_key_heads * c.linear_key_head_dim,
                     values = c.linear_num_value_heads * c.linear_value_head_dim;
  map_rows(map, "linear_attn.in_proj_q", "linear_attn.in_proj_qkv", 0, keys);
  map_rows(map, "linear_attn.in_proj_k", "linear_attn.in_proj_qkv", keys, keys);
  map_rows(map, "linear_attn.in_proj_v", "linear_attn.in_proj_qkv", 2 * keys, values);
}

void map_qwen3_5_moe(const LanguageConfig& c, WeightMap& map) {
  map_qwen3_5(c, map);
  map_experts(c, map, "mlp", "gate_proj", "up_proj", "down_proj");
}

// All norms but those of delta nets multiply by 1 + weight.
constexpr auto kDeltaNames =
    kAttention + std::array<GgufNameRule, 12>{
                     {{"token_embd", "model.embed_tokens"},
                      {"output_norm", "model.norm", plus_one},
                      {"output", "lm_head"},
                      {"blk.*.attn_norm", "model.layers.*.input_layernorm", plus_one},
                      {"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm", plus_one},
                      {"blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm", plus_one},
                      {"blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm", plus_one},
                      {"blk.*.ssm_conv1d", "model.layers.*.linear_attn.conv1d", conv_taps},
                      {"blk.*.ssm_a", "model.layers.*.linear_attn.A_log", decay_row},
                      {"blk.*.ssm_dt", "model.layers.*.linear_attn.dt", bare},
                      {"blk.*.ssm_norm", "model.layers.*.linear_attn.norm"},
                      {"blk.*.ssm_out", "model.layers.*.linear_attn.out_proj"}}};
constexpr auto kDeltaExperts = kExperts + kGatedSharedExpert;
// ssm_in: as the first converters wrote it.
constexpr auto kQwen3NextNames =
    kDeltaNames + kDeltaExperts +
    std::array<GgufNameRule, 4>{
        {{"blk.*.attn_qkv", "model.layers.*.linear_attn.in_proj_qkvz", first_of_groups},
         {"blk.*.attn_gate", "model.layers.*.linear_attn.in_proj_qkvz", second_of_groups},
         {"blk.*.ssm_in", "model.layers.*.linear_attn.in_proj_qkvz"},
         {"blk.*.ssm_ba", "model.layers.*.linear_attn.in_proj_ba"}}};
constexpr auto kQwen35Layers =
    kDeltaNames + std::array<GgufNameRule, 4>{{{"blk.*.attn_qkv", "model.layers.*.linear_attn.in_proj_qkv"},
                                               {"blk.*.attn_gate", "model.layers.*.linear_attn.in_proj_z"},
                                               {"blk.*.ssm_beta", "model.layers.*.linear_attn.in_proj_b"},
                                               {"blk.*.ssm_alpha", "model.layers.*.linear_attn.in_proj_a"}}};
constexpr auto kQwen35Names = kQwen35Layers + kMlp;
constexpr auto kQwen35MoeNames = kQwen35Layers + kDeltaExperts;
constexpr auto kDeltaKeys =
    kGatedSharedExpertKeys + std::array<GgufKeyRule, 4>{{{"ssm.conv_kernel", "linear_conv_kernel_dim"},
                                                         {"ssm.state_size", "linear_key_head_dim"},
                                                         {"ssm.time_step_rank", "linear_num_value_heads"},
                                                         {"ssm.group_count", "linear_num_key_heads"}}};

constexpr DecoderTraits kQwenHybrid{
    .qk_norm = QkNorm::head, .attention_gate = true, .norm_unit_offset = true, .shared_expert_gate = true};

}  // namespace

std::vector<LanguageFamily> qwen_hybrid() {
  return {
      {.model_type = "qwen3_next",
       .architecture = "Qwen3NextForCausalLM",
       .summary = "Qwen 3 Next: gated delta nets and gated attention in turns, mixture of experts",
       .variants = {"layer_types or full_attention_interval", "normalized or plain router weights",
                    "dense layers between"},
       .repositories = {"Qwen/Qwen3-Next-80B-A3B-Instruct"},
       .traits = kQwenHybrid,
       .experts = true,
       .defaults = R"({"rms_norm_eps": 1e-6, "num_attention_heads": 16, "num_key_value_heads": 2,
                       "head_dim": 256, "max_position_embeddings": 32768, "partial_rotary_factor": 0.25,
                       "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 48,
                       "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
                       "linear_num_key_heads": 16, "linear_num_value_heads": 32, "moe_intermediate_size": 512,
                       "shared_expert_intermediate_size": 512, "num_experts_per_tok": 10, "num_experts": 512,
                       "norm_topk_prob": true})",
       .read = read_qwen3_next,
       .write = write_qwen3_next,
       .map_weights = map_qwen3_next,
       .gguf = {.architecture = "qwen3next", .names = kQwen3NextNames, .keys = kDeltaKeys}},
      {.model_type = "qwen3_5_text",
       .architecture = "Qwen3_5ForCausalLM",
       .more_architectures = {"Qwen3_5ForConditionalGeneration"},
       .summary = "Qwen 3.5, dense: gated delta nets and gated attention in turns",
       .variants = {"layer_types or full_attention_interval",
                    "text alone, or the text part of a model that also sees"},
       .repositories = {"Qwen/Qwen3.5-0.8B", "Qwen/Qwen3.5-27B"},
       .traits = kQwenHybrid,
       .defaults = R"({"rms_norm_eps": 1e-6, "num_attention_heads": 16, "num_key_value_heads": 4,
                       "head_dim": 256, "max_position_embeddings": 32768, "partial_rotary_factor": 0.25,
                       "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 32,
                       "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
                       "linear_num_key_heads": 16, "linear_num_value_heads": 32})",
       .read = read_delta_rule,
       .write = write_delta_rule,
       .map_weights = map_qwen3_5,
       .gguf = {.architecture = "qwen35", .names = kQwen35Names, .keys = kDeltaKeys}},
      {.model_type = "qwen3_5_moe_text",
       .architecture = "Qwen3_5MoeForCausalLM",
       .more_architectures = {"Qwen3_5MoeForConditionalGeneration"},
       .summary = "Qwen 3.5, mixture of experts: gated delta nets and gated attention in turns",
       .variants = {"layer_types or full_attention_interval",
                    "text alone, or the text part of a model that also sees"},
       .repositories = {"Qwen/Qwen3.5-35B-A3B"},
       .traits = kQwenHybrid,
       .experts = true,
       .defaults = R"({"rms_norm_eps": 1e-6, "num_attention_heads": 16, "num_key_value_heads": 2,
                       "head_dim": 256, "max_position_embeddings": 32768, "partial_rotary_factor": 0.25,
                       "hidden_size": 2048, "num_hidden_layers": 40,
                       "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
                       "linear_num_key_heads": 16, "linear_num_value_heads": 32, "moe_intermediate_size": 512,
                       "shared_expert_intermediate_size": 512, "num_experts_per_tok": 8, "num_experts": 256})",
       .read = read_qwen3_5_moe,
       .write = write_qwen3_5_moe,
       .map_weights = map_qwen3_5_moe,
       .gguf = {.architecture = "qwen35moe", .names = kQwen35MoeNames, .keys = kDeltaKeys}},
  };
}

}  // namespace ingot::families
