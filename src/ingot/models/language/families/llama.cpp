#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"
#include "ingot/models/require.h"

namespace ingot::families {
namespace {

using Json = nlohmann::ordered_json;

// Without RoPE is every n-th layer, or what no_rope_layers says; those slide where a window is used.
void read_smollm3(const ConfigFile& file, LanguageConfig& c) {
  std::int64_t interval = 4;
  file.read("no_rope_layer_interval", interval);
  require(interval > 0, "no_rope_layer_interval", "must be positive");
  require_size(c.num_hidden_layers, "num_hidden_layers", kMaxModelLayers);
  file.read("no_rope_layers", c.no_rope_layers);
  for (std::int64_t i = 0; !file.has("no_rope_layers") && i < c.num_hidden_layers; ++i) {
    c.no_rope_layers.push_back((i + 1) % interval != 0 ? 1 : 0);
  }
  if (c.sliding_window == 0 || !c.layer_types.empty()) return;
  for (const std::int64_t rotates : c.no_rope_layers) {
    c.layer_types.push_back(rotates != 0 ? LayerKind::full : LayerKind::sliding);
  }
}

void write_smollm3(const LanguageConfig& c, Json& json) { json["no_rope_layers"] = c.no_rope_layers; }

// The first of four layers sees all, where the others slide.
void read_cwm(const ConfigFile& /*file*/, LanguageConfig& c) {
  if (c.sliding_window == 0 || !c.layer_types.empty()) return;
  require_size(c.num_hidden_layers, "num_hidden_layers", kMaxModelLayers);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    c.layer_types.push_back(i % 4 == 0 ? LayerKind::full : LayerKind::sliding);
  }
}

void read_seed_oss(const ConfigFile& file, LanguageConfig& c) {
  c.attention_output_bias = false;
  file.read("attention_out_bias", c.attention_output_bias);
}

void write_seed_oss(const LanguageConfig& c, Json& json) {
  json["attention_out_bias"] = c.attention_output_bias;
}

// One key for all of a layer's biases.
void read_ernie(const ConfigFile& file, LanguageConfig& c) { file.read("use_bias", c.mlp_bias); }

// Layers from start to end, every n-th, have experts; none of these a bias.
void read_ernie_moe(const ConfigFile& file, LanguageConfig& c) {
  std::int64_t shared = 2, start = 1, end = -1;
  read_ernie(file, c);
  file.read("moe_num_experts", c.num_experts);
  file.read("moe_k", c.num_experts_per_tok);
  file.read("moe_num_shared_experts", shared);
  file.read("moe_layer_start_index", start);
  file.read("moe_layer_end_index", end);
  file.read("moe_layer_interval", c.decoder_sparse_step);
  require(shared >= 0 && shared <= kMaxExperts, "moe_num_shared_experts", "must be a small number");
  require_size(c.moe_intermediate_size, "moe_intermediate_size");
  require_size(c.num_hidden_layers, "num_hidden_layers", kMaxModelLayers);
  c.shared_expert_intermediate_size = shared * c.moe_intermediate_size;
  for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer)
    if (layer < start || (end >= 0 && layer > end)) c.mlp_only_layers.push_back(layer);
}

void write_ernie_moe(const LanguageConfig& c, Json& json) {
  for (const char* key :
       {"num_experts", "num_experts_per_tok", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers"})
    json.erase(key);
  std::int64_t start = 0, end = c.num_hidden_layers - 1;
  const auto dense = [&](std::int64_t layer) {
    return std::ranges::find(c.mlp_only_layers, layer) != c.mlp_only_layers.end();
  };
  while (start <= end && dense(start)) ++start;
  while (end > start && dense(end)) --end;
  json["moe_num_experts"] = c.num_experts;
  json["moe_k"] = c.num_experts_per_tok;
  json["moe_num_shared_experts"] = c.shared_expert_intermediate_size / c.moe_intermediate_size;
  json["moe_layer_start_index"] = start;
  json["moe_layer_end_index"] = end;
  json["moe_layer_interval"] = c.decoder_sparse_step;
}

void map_ernie_moe(const LanguageConfig& c, WeightMap& map) {
  map_experts(c, map, "mlp", "gate_proj", "up_proj", "down_proj");
  for (const char* linear : {"gate_proj", "up_proj", "down_proj"})
    map_name(map, std::string("mlp.shared_expert.") + linear, std::string("mlp.shared_experts.") + linear);
  map.rules.push_back({.ours = "model.layers.*.mlp.gate.e_score_correction_bias",
                       .theirs = "model.layers.*.mlp.moe_statics.e_score_correction_bias"});
}

void read_helium(const ConfigFile& /*file*/, LanguageConfig& c) { c.attention_output_bias = false; }

// NTK-aware RoPE by a fixed alpha, which the files call "dynamic": a larger base, whatever the length.
void read_hunyuan(const ConfigFile& file, LanguageConfig& c) {
  const auto rope = file.object(file.has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  double alpha = 0;
  if (rope.has_value()) rope->read("alpha", alpha);
  if (alpha <= 0 || c.rope_scaling.type != "dynamic") return;
  const std::int64_t head_dim =
      c.head_dim > 0 ? c.head_dim : c.hidden_size / std::max<std::int64_t>(c.num_attention_heads, 1);
  require(head_dim > 2, "head_dim", "must be more than 2 for rope_scaling.alpha");
  const auto dims = static_cast<double>(head_dim);
  c.rope_theta *= std::pow(alpha, dims / (dims - 2));
  c.rope_scaling = {};
}

void map_hunyuan(const LanguageConfig& /*config*/, WeightMap& map) {
  map_name(map, "self_attn.q_norm", "self_attn.query_layernorm");
  map_name(map, "self_attn.k_norm", "self_attn.key_layernorm");
}

void read_hunyuan_moe(const ConfigFile& file, LanguageConfig& c) {
  read_hunyuan(file, c);
  c.num_experts_per_tok = 1;
  file.read_same("moe_topk", c.num_experts_per_tok);
  c.moe_intermediate_size = c.intermediate_size;
  c.shared_expert_intermediate_size = c.intermediate_size;
}

void write_hunyuan_moe(const LanguageConfig& c, Json& json) {
  for (const char* key : {"num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob",
                          "decoder_sparse_step", "mlp_only_layers", "router_aux_loss_coef"})
    json.erase(key);  // all its layers are alike
  json["moe_topk"] = c.num_experts_per_tok;
}

void map_hunyuan_moe(const LanguageConfig& c, WeightMap& map) {
  map_hunyuan(c, map);
  map.rules.push_back(
      {.ours = "model.layers.*.mlp.gate.weight", .theirs = "model.layers.*.mlp.gate.wg.weight"});
  map_experts(c, map, "mlp", "gate_proj", "up_proj", "down_proj");
  for (const char* linear : {"gate_proj", "up_proj", "down_proj"})
    map_name(map, std::string("mlp.shared_expert.") + linear, std::string("mlp.shared_mlp.") + linear);
}

constexpr auto kArceeNames = kOuter + kPairedAttention + kMlpNorm + kPlainMlp;
constexpr auto kSeedOssNames =
    kOuter + kAttention + kMlp +
    std::array<GgufNameRule, 1>{{{"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm"}}};
constexpr auto kHunyuanNames =
    kQwen2Names +
    std::array<GgufNameRule, 2>{{{"blk.*.attn_q_norm", "model.layers.*.self_attn.query_layernorm"},
                                 {"blk.*.attn_k_norm", "model.layers.*.self_attn.key_layernorm"}}};

constexpr auto kErnieMoeNames =
    kQwen2Names + kExperts +
    std::array<GgufNameRule, 4>{
        {{"blk.*.ffn_gate_shexp", "model.layers.*.mlp.shared_experts.gate_proj"},
         {"blk.*.ffn_up_shexp", "model.layers.*.mlp.shared_experts.up_proj"},
         {"blk.*.ffn_down_shexp", "model.layers.*.mlp.shared_experts.down_proj"},
         {"blk.*.exp_probs_b", "model.layers.*.mlp.moe_statics.e_score_correction", bare_row}}};
constexpr auto kErnieMoeKeys =
    kLlamaKeys + std::array<GgufKeyRule, 4>{{{"expert_count", "moe_num_experts"},
                                             {"expert_used_count", "moe_k"},
                                             {"leading_dense_block_count", "moe_layer_start_index"},
                                             {"interleave_moe_layer_step", "moe_layer_interval"}}};
constexpr auto kHunyuanMoeNames =
    kHunyuanNames +
    std::array<GgufNameRule, 7>{{{"blk.*.ffn_gate_inp", "model.layers.*.mlp.gate.wg"},
                                 {"blk.*.ffn_gate_exps", "model.layers.*.mlp.experts.#.gate_proj", experts},
                                 {"blk.*.ffn_up_exps", "model.layers.*.mlp.experts.#.up_proj", experts},
                                 {"blk.*.ffn_down_exps", "model.layers.*.mlp.experts.#.down_proj", experts},
                                 {"blk.*.ffn_gate_shexp", "model.layers.*.mlp.shared_mlp.gate_proj"},
                                 {"blk.*.ffn_up_shexp", "model.layers.*.mlp.shared_mlp.up_proj"},
                                 {"blk.*.ffn_down_shexp", "model.layers.*.mlp.shared_mlp.down_proj"}}};
constexpr auto kHunyuanMoeKeys = kLlamaKeys + std::array<GgufKeyRule, 1>{{{"expert_used_count", "moe_topk"}}};

}  // namespace

std::vector<LanguageFamily> llama() {
  return {
      {.model_type = "llama",
       .architecture = "LlamaForCausalLM",
       .summary = "Llama 1 to 3.3, and the many models of its layout",
       .variants = {"tied or own head", "attention and MLP biases", "every RoPE scaling"},
       .repositories = {"meta-llama/Llama-2-7b-hf", "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.2-1B",
                        "HuggingFaceTB/SmolLM2-135M", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"},
       .defaults = R"({"rms_norm_eps": 1e-6})",
       .mlp_bias_key = "mlp_bias",
       .gguf = {.architecture = "llama", .names = kLlamaNames, .keys = kLlamaKeys}},
      {.model_type = "smollm3",
       .architecture = "SmolLM3ForCausalLM",
       .summary = "SmolLM3: Llama with layers without RoPE",
       .variants = {"layers without RoPE by interval or list", "sliding layers or none"},
       .repositories = {"HuggingFaceTB/SmolLM3-3B", "HuggingFaceTB/SmolLM3-3B-Base"},
       .tied = true,
       .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "num_key_value_heads": 4,
                       "rope_theta": 2000000.0, "use_sliding_window": false})",
       .mlp_bias_key = "mlp_bias",
       .read = read_smollm3,
       .write = write_smollm3,
       .gguf = {.architecture = "smollm3", .names = kLlamaNames, .keys = kLlamaKeys}},
      {.model_type = "arcee",
       .architecture = "ArceeForCausalLM",
       .summary = "Arcee Foundation Models: Llama with squared ReLU",
       .variants = {"attention and MLP biases", "every RoPE scaling"},
       .repositories = {"arcee-ai/AFM-4.5B", "arcee-ai/AFM-4.5B-Base"},
       .traits = {.mlp = MlpKind::relu2},
       .defaults = R"({"max_position_embeddings": 4096})",
       .mlp_bias_key = "mlp_bias",
       .gguf = {.architecture = "arcee", .names = kArceeNames, .keys = kLlamaKeys}},
      {.model_type = "cwm",
       .architecture = "CwmForCausalLM",
       .summary = "Code World Model: Llama 3 with sliding layers",
       .variants = {"layer_types, or one full layer in four"},
       .repositories = {"facebook/cwm"},
       .defaults = R"({"max_position_embeddings": 131072, "num_key_value_heads": 8, "head_dim": 128,
                       "rope_theta": 1000000.0, "sliding_window": 8192})",
       .attention_bias_key = {},
       .mlp_bias_key = "mlp_bias",
       .read = read_cwm},
      {.model_type = "seed_oss",
       .architecture = "SeedOssForCausalLM",
       .summary = "Seed-OSS: Llama with biases of query, key and value",
       .variants = {"bias of the attention output"},
       .repositories = {"ByteDance-Seed/Seed-OSS-36B-Instruct", "ByteDance-Seed/Seed-OSS-36B-Base"},
       .traits = {.qkv_bias = true},
       .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 524288, "num_key_value_heads": 8,
                       "head_dim": 128})",
       .mlp_bias_key = "mlp_bias",
       .read = read_seed_oss,
       .write = write_seed_oss,
       .gguf = {.architecture = "seed_oss", .names = kSeedOssNames, .keys = kLlamaKeys}},
      {.model_type = "ernie4_5",
       .architecture = "Ernie4_5ForCausalLM",
       .summary = "ERNIE 4.5, dense: Llama with interleaved RoPE",
       .variants = {"biases or none"},
       .repositories = {"baidu/ERNIE-4.5-0.3B-PT", "baidu/ERNIE-4.5-0.3B-Base-PT"},
       .traits = {.interleaved_rope = true},
       .tied = true,
       .defaults = R"({"max_position_embeddings": 131072, "num_key_value_heads": 2, "rope_theta": 500000.0,
                       "head_dim": 128})",
       .attention_bias_key = "use_bias",
       .read = read_ernie,
       .gguf = {.architecture = "ernie4_5", .names = kQwen2Names, .keys = kLlamaKeys}},
      {.model_type = "ernie4_5_moe",
       .architecture = "Ernie4_5_MoeForCausalLM",
       .summary = "ERNIE 4.5, mixture of experts with shared ones",
       .variants = {"dense layers before, between and behind", "shared experts or none"},
       .repositories = {"baidu/ERNIE-4.5-21B-A3B-PT", "baidu/ERNIE-4.5-300B-A47B-PT"},
       .traits = {.interleaved_rope = true, .router_bias = true},
       .experts = true,
       .tied = true,
       .defaults = R"({"max_position_embeddings": 131072, "num_key_value_heads": 4, "rope_theta": 500000.0,
                       "moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1536})",
       .attention_bias_key = "use_bias",
       .read = read_ernie_moe,
       .write = write_ernie_moe,
       .map_weights = map_ernie_moe,
       .gguf = {.architecture = "ernie4_5-moe", .names = kErnieMoeNames, .keys = kErnieMoeKeys, .gating = 1}},
      {.model_type = "helium",
       .architecture = "HeliumForCausalLM",
       .summary = "Helium: Llama with interleaved RoPE",
       .variants = {"attention and MLP biases"},
       .repositories = {"kyutai/helium-1-preview-2b"},
       .traits = {.interleaved_rope = true},
       .defaults = R"({"rms_norm_eps": 1e-8, "max_position_embeddings": 4096, "num_key_value_heads": 20,
                       "head_dim": 128, "rope_theta": 100000.0})",
       .mlp_bias_key = "mlp_bias",
       .read = read_helium},
      {.model_type = "hunyuan_v1_dense",
       .architecture = "HunYuanDenseV1ForCausalLM",
       .summary = "Hunyuan, dense: Llama with norms of heads behind RoPE",
       .variants = {"RoPE scaled by alpha"},
       .repositories = {"tencent/Hunyuan-0.5B-Instruct", "tencent/Hunyuan-7B-Instruct"},
       .traits = {.qk_norm = QkNorm::head_after_rope},
       .mlp_bias_key = "mlp_bias",
       .read = read_hunyuan,
       .map_weights = map_hunyuan,
       .gguf = {.architecture = "hunyuan-dense", .names = kHunyuanNames, .keys = kLlamaKeys}},
      {.model_type = "hunyuan_v1_moe",
       .architecture = "HunYuanMoEV1ForCausalLM",
       .summary = "Hunyuan, mixture of experts beside a shared MLP",
       .variants = {"RoPE scaled by alpha", "attention biases"},
       .repositories = {"tencent/Hunyuan-A13B-Instruct"},
       .traits = {.qk_norm = QkNorm::head_after_rope},
       .experts = true,
       .moe_layers_alike = true,
       .defaults = R"({"router_aux_loss_coef": 0})",
       .read = read_hunyuan_moe,
       .write = write_hunyuan_moe,
       .map_weights = map_hunyuan_moe,
       .gguf =
           {.architecture = "hunyuan-moe", .names = kHunyuanMoeNames, .keys = kHunyuanMoeKeys, .gating = 1}},
  };
}

}  // namespace ingot::families
