#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"
#include "ingot/models/require.h"

namespace ingot::families {
namespace {

// layer_types, or full_attn_idxs of older files; without either all layers attend.
void read_layers(const ConfigFile& file, LanguageConfig& c) {
  require_size(c.num_hidden_layers, "num_hidden_layers", kMaxModelLayers);  // before as many are listed
  std::vector<std::string> types;
  file.read("layer_types", types);
  c.layer_types.clear();
  for (const std::string& type : types) {
    INGOT_CHECK(type == "conv" || type == "full_attention",
                NotImplemented(fmt::format("{}: layer type '{}' in a {} model (conv and full_attention are)",
                                           file.path(), type, c.model_type)));
    c.layer_types.push_back(type == "conv" ? LayerKind::conv : LayerKind::full);
  }
  if (!c.is_recurrent()) c.layer_types.clear();
  if (!types.empty() || !file.has("full_attn_idxs")) return;
  std::vector<std::int64_t> attending;
  file.read("full_attn_idxs", attending);
  c.layer_types.assign(static_cast<std::size_t>(c.num_hidden_layers), LayerKind::conv);
  for (const std::int64_t layer : attending) {
    require(layer >= 0 && layer < c.num_hidden_layers, "full_attn_idxs",
            fmt::format("names layer {} of num_hidden_layers {}", layer, c.num_hidden_layers));
    c.layer_types[static_cast<std::size_t>(layer)] = LayerKind::full;
  }
}

// What conversions of both families share.
void read_conv(const ConfigFile& file, LanguageConfig& c) {
  file.read("tie_embedding", c.tie_word_embeddings);
  file.read("conv_L_cache", c.conv_L_cache);
  file.read("conv_bias", c.conv_bias);
  read_layers(file, c);
}

// Files give the width of an MLP without a gate, of as many parameters.
void read_lfm2(const ConfigFile& file, LanguageConfig& c) {
  read_conv(file, c);
  file.read("block_ff_dim", c.intermediate_size);
  bool adjusted = true;
  file.read("block_auto_adjust_ff_dim", adjusted);
  if (!adjusted) return;
  double factor = 1;
  std::int64_t multiple = 256;
  file.read("block_ffn_dim_multiplier", factor);
  file.read("block_multiple_of", multiple);
  require_size(c.intermediate_size, "intermediate_size", kMaxVocabulary);
  require_size(multiple, "block_multiple_of");
  require(factor > 0 && factor <= static_cast<double>(kMaxModelSize), "block_ffn_dim_multiplier",
          fmt::format("must be positive, got {}", factor));
  const std::int64_t gated = 2 * c.intermediate_size / 3;
  const auto width = static_cast<std::int64_t>(factor * static_cast<double>(gated));
  const bool exact = file.is_null("block_ffn_dim_multiplier");  // then it is not rounded
  c.intermediate_size = exact ? gated : (width + multiple - 1) / multiple * multiple;
}

void write_conv(const LanguageConfig& c, nlohmann::ordered_json& json) {
  json["conv_L_cache"] = c.conv_L_cache;
  json["conv_bias"] = c.conv_bias;
  json.erase("sliding_window");
  if (!json.contains("layer_types"))  // transformers has no default for mixtures
    json["layer_types"] =
        std::vector<std::string>(static_cast<std::size_t>(c.num_hidden_layers), "full_attention");
}

void write_lfm2(const LanguageConfig& c, nlohmann::ordered_json& json) {
  write_conv(c, json);
  json["block_auto_adjust_ff_dim"] = false;
}

void read_lfm2_moe(const ConfigFile& file, LanguageConfig& c) {
  read_conv(file, c);
  std::int64_t dense = 2;
  file.read("num_dense_layers", dense);
  file.read("use_expert_bias", c.router_bias);
  file.read("routed_scaling_factor", c.routed_scaling_factor);
  require(dense >= 0 && dense <= c.num_hidden_layers, "num_dense_layers",
          fmt::format("must be from 0 to num_hidden_layers {}, got {}", c.num_hidden_layers, dense));
  for (std::int64_t layer = 0; layer < dense; ++layer) c.mlp_only_layers.push_back(layer);
}

void write_lfm2_moe(const LanguageConfig& c, nlohmann::ordered_json& json) {
  write_conv(c, json);
  for (const char* key : {"decoder_sparse_step", "mlp_only_layers", "router_aux_loss_coef"}) json.erase(key);
  json["num_dense_layers"] = static_cast<std::int64_t>(c.mlp_only_layers.size());
  json["use_expert_bias"] = c.router_bias;
  json["routed_scaling_factor"] = c.routed_scaling_factor;
}

void map_lfm2(const LanguageConfig& /*config*/, WeightMap& map) {
  map_tensor(map, "model.norm", "model.embedding_norm");
  map_name(map, "input_layernorm", "operator_norm");
  map_name(map, "post_attention_layernorm", "ffn_norm");
  map_name(map, "self_attn.o_proj", "self_attn.out_proj");
  map_name(map, "self_attn.q_norm", "self_attn.q_layernorm");
  map_name(map, "self_attn.k_norm", "self_attn.k_layernorm");
  map_name(map, "mlp.gate_proj", "feed_forward.w1");
  map_name(map, "mlp.up_proj", "feed_forward.w3");
  map_name(map, "mlp.down_proj", "feed_forward.w2");
}

void map_lfm2_moe(const LanguageConfig& c, WeightMap& map) {
  map_lfm2(c, map);
  map_experts(c, map, "feed_forward", "w1", "w3", "w2");
  map_router_bias(map, "feed_forward.expert_bias");
}

constexpr std::array<GgufNameRule, 17> kLfm2Names{
    {{"token_embd", "model.embed_tokens"},
     {"token_embd_norm", "model.embedding_norm"},
     {"output", "lm_head"},
     {"blk.*.attn_norm", "model.layers.*.operator_norm"},
     {"blk.*.ffn_norm", "model.layers.*.ffn_norm"},
     {"blk.*.attn_q", "model.layers.*.self_attn.q_proj"},
     {"blk.*.attn_k", "model.layers.*.self_attn.k_proj"},
     {"blk.*.attn_v", "model.layers.*.self_attn.v_proj"},
     {"blk.*.attn_output", "model.layers.*.self_attn.out_proj"},
     {"blk.*.attn_q_norm", "model.layers.*.self_attn.q_layernorm"},
     {"blk.*.attn_k_norm", "model.layers.*.self_attn.k_layernorm"},
     {"blk.*.shortconv.in_proj", "model.layers.*.conv.in_proj"},
     {"blk.*.shortconv.conv", "model.layers.*.conv.conv", conv_taps},
     {"blk.*.shortconv.out_proj", "model.layers.*.conv.out_proj"},
     {"blk.*.ffn_gate", "model.layers.*.feed_forward.w1"},
     {"blk.*.ffn_up", "model.layers.*.feed_forward.w3"},
     {"blk.*.ffn_down", "model.layers.*.feed_forward.w2"}}};
constexpr auto kLfm2MoeNames =
    kLfm2Names +
    std::array<GgufNameRule, 5>{{{"blk.*.ffn_gate_inp", "model.layers.*.feed_forward.gate"},
                                 {"blk.*.ffn_gate_exps", "model.layers.*.feed_forward.experts.#.w1", experts},
                                 {"blk.*.ffn_up_exps", "model.layers.*.feed_forward.experts.#.w3", experts},
                                 {"blk.*.ffn_down_exps", "model.layers.*.feed_forward.experts.#.w2", experts},
                                 {"blk.*.exp_probs_b", "model.layers.*.feed_forward.expert", bare}}};
constexpr auto kLfm2Keys =
    kCommonKeys + std::array<GgufKeyRule, 2>{{{"attention.layer_norm_rms_epsilon", "norm_eps", number},
                                              {"shortconv.l_cache", "conv_L_cache"}}};
constexpr auto kLfm2MoeKeys =
    kLfm2Keys + std::array<GgufKeyRule, 1>{{{"leading_dense_block_count", "num_dense_layers"}}};

}  // namespace

std::vector<LanguageFamily> lfm2() {
  return {
      {.model_type = "lfm2",
       .architecture = "Lfm2ForCausalLM",
       .summary = "LFM2: short convolutions and attention in turns",
       .variants = {"layer_types or full_attn_idxs", "convolutions of any length, with biases or without",
                    "MLP widths as given or adjusted"},
       .repositories = {"LiquidAI/LFM2-350M", "LiquidAI/LFM2-1.2B", "LiquidAI/LFM2-2.6B"},
       .traits = {.qk_norm = QkNorm::head},
       .tied = true,
       .defaults = R"({"num_key_value_heads": 8, "max_position_embeddings": 128000, "norm_eps": 1e-5,
                       "rope_theta": 1000000.0})",
       .norm_eps_key = "norm_eps",
       .attention_bias_key = {},
       .read = read_lfm2,
       .write = write_lfm2,
       .map_weights = map_lfm2,
       .gguf = {.architecture = "lfm2",
                .names = kLfm2Names,
                .keys = kLfm2Keys,
                .fixed = R"({"block_auto_adjust_ff_dim": false})"}},
      {.model_type = "lfm2_moe",
       .architecture = "Lfm2MoeForCausalLM",
       .summary = "LFM2 with mixtures of experts behind its first layers",
       .variants = {"layer_types", "a bias for the choice of experts or none"},
       .repositories = {"LiquidAI/LFM2-8B-A1B"},
       .traits = {.qk_norm = QkNorm::head,
                  .router_score = RouterScore::sigmoid,
                  .router_bias = true,
                  .router_norm_eps = 1e-6},
       .experts = true,
       .tied = true,
       .defaults = R"({"num_key_value_heads": 8, "max_position_embeddings": 128000, "norm_eps": 1e-5,
                       "rope_theta": 1000000.0, "num_experts": 32, "num_experts_per_tok": 4,
                       "moe_intermediate_size": 1792, "intermediate_size": 7168, "router_aux_loss_coef": 0})",
       .norm_eps_key = "norm_eps",
       .attention_bias_key = {},
       .read = read_lfm2_moe,
       .write = write_lfm2_moe,
       .map_weights = map_lfm2_moe,
       .gguf = {.architecture = "lfm2moe", .names = kLfm2MoeNames, .keys = kLfm2MoeKeys, .gating = 2}},
  };
}

}  // namespace ingot::families
