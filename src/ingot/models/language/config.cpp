#include "ingot/models/language/config.h"

#include <algorithm>
#include <array>
#include <tuple>

#include <fmt/format.h>

#include "ingot/models/require.h"
#include "ingot/models/rope_keys.h"

namespace ingot {
namespace {

constexpr std::int64_t kMostConvSteps = 1024;

void require_positive(double value, const char* key) {
  require(value > 0, key, fmt::format("must be positive, got {}", value));
}

void require_not_negative(double value, const char* key) {
  require(value >= 0, key, fmt::format("must be 0 (off) or positive, got {}", value));
}

// Heads of latent attention: queries and keys of one size, values of another.
void derive_latent(LanguageConfig& c) {
  if (!c.latent_attention) return;
  if (c.kv_lora_rank == 0) {  // in DeepSeek V3's proportions
    const std::int64_t head =
        c.head_dim > 0 ? c.head_dim : std::max<std::int64_t>(c.hidden_size / c.num_attention_heads, 1);
    c.qk_nope_head_dim = c.v_head_dim = head;
    c.qk_rope_head_dim = std::max<std::int64_t>(head / 4 * 2, 2);
    c.kv_lora_rank = 4 * head;
  }
  require_size(c.kv_lora_rank, "kv_lora_rank");
  require_not_negative(static_cast<double>(c.q_lora_rank), "q_lora_rank");
  require_size(c.qk_nope_head_dim, "qk_nope_head_dim");
  require_size(c.qk_rope_head_dim, "qk_rope_head_dim");
  require_size(c.v_head_dim, "v_head_dim");
  c.head_dim = c.qk_nope_head_dim + c.qk_rope_head_dim;
  c.num_key_value_heads = c.num_attention_heads;
  require(c.num_attention_heads <= kMaxModelSize / c.v_head_dim * 16, "v_head_dim",
          fmt::format("{} heads of {} elements are more than any model has", c.num_attention_heads,
                      c.v_head_dim));
}

void derive_heads(LanguageConfig& c) {
  if (c.num_key_value_heads == 0) c.num_key_value_heads = c.num_attention_heads;
  require(
      c.num_key_value_heads > 0 && c.num_attention_heads % c.num_key_value_heads == 0, "num_key_value_heads",
      fmt::format("{} does not divide num_attention_heads {}", c.num_key_value_heads, c.num_attention_heads));
  if (c.head_dim == 0) {
    require(c.hidden_size % c.num_attention_heads == 0, "num_attention_heads",
            fmt::format("{} does not divide hidden_size {}; choose another, or set head_dim",
                        c.num_attention_heads, c.hidden_size));
    c.head_dim = c.hidden_size / c.num_attention_heads;
  }
  require_size(c.head_dim, "head_dim");
  require(
      c.num_attention_heads <= kMaxModelSize / c.head_dim * 16, "head_dim",
      fmt::format("{} heads of {} elements are more than any model has", c.num_attention_heads, c.head_dim));
}

// Layers of two sizes of heads, and the last ones with the keys of others.
void derive_shared_keys(LanguageConfig& c) {
  require_not_negative(static_cast<double>(c.global_head_dim), "global_head_dim");
  require_not_negative(static_cast<double>(c.num_global_key_value_heads), "num_global_key_value_heads");
  require(c.num_global_key_value_heads == 0 || c.num_attention_heads % c.num_global_key_value_heads == 0,
          "num_global_key_value_heads",
          fmt::format("{} does not divide num_attention_heads {}", c.num_global_key_value_heads,
                      c.num_attention_heads));
  require(c.num_attention_heads <= kMaxModelSize / c.widest_head() * 16, "global_head_dim",
          fmt::format("{} heads of {} elements are more than any model has", c.num_attention_heads,
                      c.widest_head()));
  const std::int64_t own = c.layers_with_keys();
  require(own > 0 && own <= c.num_hidden_layers, "num_kv_shared_layers",
          fmt::format("is {} of {} layers; it must be at least 0, and less than these",
                      c.num_kv_shared_layers, c.num_hidden_layers));
  for (std::int64_t layer = own; layer < c.num_hidden_layers; ++layer)
    require(c.key_layer(layer) < own, "num_kv_shared_layers",
            fmt::format("{} leaves layer {} no layer of its kind whose keys it could read",
                        c.num_kv_shared_layers, layer));
}

// Of a model from scratch, in the proportions of those that were released. transformers opens none without a
// window and a cap of logits.
void complete_streams(LanguageConfig& c) {
  if (!c.several_streams) return;
  const auto layers = static_cast<std::size_t>(c.num_hidden_layers);
  if (c.activation_sparsity_pattern.empty()) c.activation_sparsity_pattern.assign(layers, 0.0);
  if (c.sliding_window == 0 && c.layer_types.empty()) {
    c.sliding_window = 512;
    c.layer_types.assign(layers, LayerKind::full);
  }
  if (c.altup_num_inputs != 0) return;
  c.altup_num_inputs = 4;
  if (c.final_logit_softcapping == 0) c.final_logit_softcapping = 30;
  c.laurel_rank = std::max<std::int64_t>(c.hidden_size / 32, 1);
  if (c.hidden_size_per_layer_input == 0)
    c.hidden_size_per_layer_input = std::max<std::int64_t>(c.hidden_size / 8, 1);
  if (c.vocab_size_per_layer_input == 0) c.vocab_size_per_layer_input = c.vocab_size;
}

void derive_streams(LanguageConfig& c) {
  require(c.activation_sparsity_pattern.empty() ||
              static_cast<std::int64_t>(c.activation_sparsity_pattern.size()) == c.num_hidden_layers,
          "activation_sparsity_pattern",
          fmt::format("names {} layers of num_hidden_layers {}", c.activation_sparsity_pattern.size(),
                      c.num_hidden_layers));
  require(
      std::ranges::all_of(c.activation_sparsity_pattern, [](double part) { return part >= 0 && part < 1; }),
      "activation_sparsity_pattern", "must be from 0 to less than 1 throughout");
  if (!c.several_streams) return;
  constexpr std::int64_t kMostStreams = 64;
  require(c.altup_num_inputs >= 2 && c.altup_num_inputs <= kMostStreams, "altup_num_inputs",
          fmt::format("must be from 2 to {}, got {}", kMostStreams, c.altup_num_inputs));
  require(c.altup_active_idx >= 0 && c.altup_active_idx < c.altup_num_inputs, "altup_active_idx",
          fmt::format("is {}; altup_num_inputs is {}", c.altup_active_idx, c.altup_num_inputs));
  require_size(c.laurel_rank, "laurel_rank");
}

void derive_layer_inputs(const LanguageConfig& c) {
  require_not_negative(static_cast<double>(c.hidden_size_per_layer_input), "hidden_size_per_layer_input");
  if (c.hidden_size_per_layer_input == 0) return;
  require_size(c.hidden_size_per_layer_input, "hidden_size_per_layer_input");
  require_size(c.vocab_size_per_layer_input, "vocab_size_per_layer_input", kMaxVocabulary);
  require(c.several_streams || c.vocab_size_per_layer_input >= c.vocab_size, "vocab_size_per_layer_input",
          fmt::format("is {}, less than vocab_size {}: the other tokens have no row of layers' inputs",
                      c.vocab_size_per_layer_input, c.vocab_size));
}

bool is_attention(LayerKind kind) {
  return kind == LayerKind::full || kind == LayerKind::sliding || kind == LayerKind::chunked ||
         kind == LayerKind::hybrid;
}

void derive_delta_rule(LanguageConfig& c) {
  if (!c.has_kind(LayerKind::delta)) return;
  require_size(c.linear_num_key_heads, "linear_num_key_heads");
  require_size(c.linear_num_value_heads, "linear_num_value_heads");
  require_size(c.linear_key_head_dim, "linear_key_head_dim");
  require_size(c.linear_value_head_dim, "linear_value_head_dim");
  for (const auto& [heads, size, key] :
       {std::tuple{c.linear_num_key_heads, c.linear_key_head_dim, "linear_key_head_dim"},
        {c.linear_num_value_heads, c.linear_value_head_dim, "linear_value_head_dim"}})
    require(heads <= kMaxModelSize / size * 16, key,
            fmt::format("{} heads of {} elements are more than any model has", heads, size));
  require(c.linear_num_value_heads % c.linear_num_key_heads == 0, "linear_num_key_heads",
          fmt::format("{} does not divide linear_num_value_heads {}", c.linear_num_key_heads,
                      c.linear_num_value_heads));
}

void derive_mamba(LanguageConfig& c) {
  if (!c.has_mamba()) return;
  if ((c.mamba_layers || c.hybrid_layers) &&
      c.mamba_n_heads == 0) {  // from scratch, in the paper's proportions
    const std::int64_t inner = 2 * c.hidden_size;
    c.mamba_d_head = inner % 64 == 0 ? 64 : inner;
    c.mamba_n_heads = inner / c.mamba_d_head;
    c.mamba_d_state = 128;
    c.conv_L_cache = 4;
    c.conv_bias = true;
  }
  require_size(c.mamba_n_heads, "mamba_n_heads");
  require_size(c.mamba_d_head, "mamba_d_head");
  require_size(c.mamba_d_state, "mamba_d_state");
  require_size(c.mamba_n_groups, "mamba_n_groups");
  require(
      c.mamba_n_heads <= kMaxModelSize / c.mamba_d_head * 16, "mamba_d_head",
      fmt::format("{} heads of {} elements are more than any model has", c.mamba_n_heads, c.mamba_d_head));
  require(
      c.mamba_n_groups <= kMaxModelSize / c.mamba_d_state * 16, "mamba_d_state",
      fmt::format("{} groups of {} elements are more than any model has", c.mamba_n_groups, c.mamba_d_state));
  require(c.mamba_n_heads % c.mamba_n_groups == 0, "mamba_n_groups",
          fmt::format("{} does not divide mamba_n_heads {}", c.mamba_n_groups, c.mamba_n_heads));
  require(c.least_time_step >= 0 && c.least_time_step <= c.most_time_step, "time_step_limit",
          fmt::format("must be two numbers from 0, in order, got {} and {}", c.least_time_step,
                      c.most_time_step));
  require(c.ssm_multipliers.empty() || c.ssm_multipliers.size() == 5, "ssm_multipliers",
          fmt::format("are {} numbers; expected 5: of z, x, B, C and time steps", c.ssm_multipliers.size()));
}

void derive_rope(LanguageConfig& c) {
  require(c.partial_rotary_factor > 0 && c.partial_rotary_factor <= 1, "partial_rotary_factor",
          fmt::format("must be in (0, 1], got {}", c.partial_rotary_factor));
  validate_rope(c.rope_scaling, c.rotary(), c.head_dim);
}

void derive_experts(LanguageConfig& c) {
  if (c.num_experts == 0) return;
  require_size(c.num_experts, "num_experts", kMaxExperts / c.num_hidden_layers);
  require(c.num_experts_per_tok > 0 && c.num_experts_per_tok <= c.num_experts, "num_experts_per_tok",
          fmt::format("must be from 1 to num_experts {}, got {}", c.num_experts, c.num_experts_per_tok));
  if (c.moe_intermediate_size == 0) c.moe_intermediate_size = c.intermediate_size;
  if (c.weighs_inputs) {
    c.norm_topk_prob = false;
    // Every such layer has one; a rank's part is its own.
    if (c.shared_expert_intermediate_size == 0) c.shared_expert_intermediate_size = c.moe_intermediate_size;
  }
  if (c.group_judges == 1) c.norm_topk_prob = false;  // DeepSeek V2 has no other
  if (c.expert_bias && c.swiglu_limit == 0) {         // gpt-oss' own
    c.swiglu_limit = 7;
    c.swiglu_alpha = 1.702;
  }
  require_size(c.moe_intermediate_size, "moe_intermediate_size");
  require_positive(static_cast<double>(c.decoder_sparse_step), "decoder_sparse_step");
  require_not_negative(c.router_aux_loss_coef, "router_aux_loss_coef");
  require_not_negative(static_cast<double>(c.shared_expert_intermediate_size),
                       "shared_expert_intermediate_size");
  require_not_negative(static_cast<double>(c.moe_latent_size), "moe_latent_size");
  require(c.n_group > 0 && c.num_experts % c.n_group == 0, "n_group",
          fmt::format("{} does not divide the {} experts", c.n_group, c.num_experts));
  require(c.n_group == 1 || c.num_experts / c.n_group >= c.group_judges, "n_group",
          fmt::format("{} leaves {} experts in each group; a group is judged by its {} best", c.n_group,
                      c.num_experts / c.n_group, c.group_judges));
  require(c.topk_group > 0 && c.topk_group <= c.n_group, "topk_group",
          fmt::format("must be from 1 to n_group {}, got {}", c.n_group, c.topk_group));
  require(c.num_experts_per_tok <= c.num_experts / c.n_group * c.topk_group, "num_experts_per_tok",
          fmt::format("{} are more experts than {} groups of {} hold", c.num_experts_per_tok, c.topk_group,
                      c.num_experts / c.n_group));
  require_positive(c.routed_scaling_factor, "routed_scaling_factor");
  require(c.router_score != RouterScore::sparse_mixer || c.num_experts_per_tok == 2, "num_experts_per_tok",
          fmt::format("is {}; SparseMixer chooses 2", c.num_experts_per_tok));
  require_not_negative(c.router_jitter_noise, "router_jitter_noise");
  require(c.single_blocks || c.experts_beside_mlp || (c.mlp == MlpKind::swiglu && !c.mlp_bias), "num_experts",
          "experts are SwiGLU MLPs without bias; this family has others");
}

}  // namespace

void LanguageConfig::validate() {
  require_size(num_hidden_layers, "num_hidden_layers", kMaxModelLayers);
  require_size(vocab_size, "vocab_size", kMaxVocabulary);
  if (mamba_layers || hybrid_layers)
    layer_types.assign(static_cast<std::size_t>(num_hidden_layers),
                       mamba_layers ? LayerKind::mamba : LayerKind::hybrid);
  require_size(hidden_size, "hidden_size");
  require_size(num_attention_heads, "num_attention_heads");
  require_size(intermediate_size, "intermediate_size", kMaxVocabulary);
  require_size(max_position_embeddings, "max_position_embeddings", std::int64_t{1} << 40);
  require_positive(norm_eps, "rms_norm_eps");
  require(is_training_dtype(dtype), "dtype",
          fmt::format("{} is not a dtype to train or run in", name(dtype)));
  derive_latent(*this);
  derive_heads(*this);
  if (position == PositionKind::rope) derive_rope(*this);
  require_not_negative(static_cast<double>(sliding_window), "sliding_window");
  require_not_negative(static_cast<double>(query_pre_attn_scalar), "query_pre_attn_scalar");
  require_not_negative(attn_logit_softcapping, "attn_logit_softcapping");
  require_not_negative(final_logit_softcapping, "final_logit_softcapping");
  require(layer_types.empty() || static_cast<std::int64_t>(layer_types.size()) == num_hidden_layers,
          "layer_types",
          fmt::format("names {} layers of num_hidden_layers {}", layer_types.size(), num_hidden_layers));
  derive_shared_keys(*this);
  complete_streams(*this);
  derive_layer_inputs(*this);
  derive_streams(*this);
  require(no_rope_layers.empty() || static_cast<std::int64_t>(no_rope_layers.size()) >= num_hidden_layers,
          "no_rope_layers",
          fmt::format("names {} layers of num_hidden_layers {}", no_rope_layers.size(), num_hidden_layers));
  require_size(conv_L_cache, "conv_L_cache", kMostConvSteps);
  derive_mamba(*this);
  derive_delta_rule(*this);
  require_not_negative(clip_qkv, "clip_qkv");
  require_positive(alibi_bias_max, "alibi_bias_max");
  require_not_negative(static_cast<double>(word_embed_proj_dim), "word_embed_proj_dim");
  require_positive(embedding_multiplier, "embedding_multiplier");
  require_positive(residual_multiplier, "residual_multiplier");
  require_positive(logit_scale, "logit_scale");
  require_not_negative(attention_multiplier, "attention_multiplier");
  require_not_negative(query_position_scale, "rope_parameters.llama_4_scaling_beta");
  require_not_negative(static_cast<double>(floor_scale), "floor_scale");
  require_not_negative(static_cast<double>(attention_chunk_size), "attention_chunk_size");
  require(attention_chunk_size > 0 || !has_kind(LayerKind::chunked), "attention_chunk_size",
          "is missing, and layer_types has chunked_attention");
  derive_experts(*this);
}

bool LanguageConfig::slides(std::int64_t layer) const {
  if (layer_types.empty()) return sliding_window > 0;
  return layer_types[static_cast<std::size_t>(layer)] == LayerKind::sliding;
}

bool LanguageConfig::attends(std::int64_t layer) const {
  return layer_types.empty() || is_attention(layer_types[static_cast<std::size_t>(layer)]);
}

std::int64_t LanguageConfig::key_layer(std::int64_t layer) const {
  if (!reads_other_keys(layer)) return layer;
  for (std::int64_t before = layers_with_keys() - 1; before >= 0; --before)
    if (slides(before) == slides(layer)) return before;
  return layer;
}

bool LanguageConfig::gives_keys(std::int64_t layer) const {
  for (std::int64_t reader = layers_with_keys(); reader < num_hidden_layers; ++reader)
    if (key_layer(reader) == layer) return true;
  return false;
}

bool LanguageConfig::is_recurrent() const {
  for (std::int64_t layer = 0; layer < static_cast<std::int64_t>(layer_types.size()); ++layer)
    if (keeps_state(layer)) return true;
  return false;
}

bool LanguageConfig::has_kind(LayerKind kind) const {
  return std::ranges::find(layer_types, kind) != layer_types.end();
}

std::int64_t LanguageConfig::conv_channels() const {
  if (has_kind(LayerKind::delta))
    return 2 * linear_num_key_heads * linear_key_head_dim + linear_num_value_heads * linear_value_head_dim;
  return mamba_n_heads > 0 ? mamba_inner() + 2 * mamba_n_groups * mamba_d_state : hidden_size;
}

std::int64_t LanguageConfig::attention_layers() const {
  return layer_types.empty() ? num_hidden_layers : std::ranges::count_if(layer_types, is_attention);
}

std::int64_t LanguageConfig::query_elements() const {
  std::int64_t all = 0;
  for (std::int64_t layer = 0; layer < num_hidden_layers; ++layer)
    if (attends(layer)) all += num_attention_heads * head_size(layer);
  return all;
}

std::int64_t LanguageConfig::parameters_outside_layers() const {
  const std::int64_t inputs = num_hidden_layers * hidden_size_per_layer_input;
  const std::int64_t streams =
      altup_num_inputs > 0 ? 2 * (altup_num_inputs - 1) * hidden_size * hidden_size : 0;
  return (tie_word_embeddings ? 1 : 2) * vocab_size * embedding_size() +
         inputs * (vocab_size_per_layer_input + hidden_size) + streams;
}

bool LanguageConfig::rotates(std::int64_t layer) const {
  if (position != PositionKind::rope) return false;
  if (!no_rope_layers.empty()) return no_rope_layers[static_cast<std::size_t>(layer)] != 0;
  return !rope_needs_window || sliding_window == 0 || slides(layer);
}

bool LanguageConfig::is_sparse(std::int64_t layer) const {
  if (single_blocks) return is_kind(layer, LayerKind::moe);
  return num_experts > 0 && (layer + 1) % decoder_sparse_step == 0 &&
         std::ranges::find(mlp_only_layers, layer) == mlp_only_layers.end();
}

std::int64_t LanguageConfig::rotary_size() const {
  if (is_latent()) return qk_rope_head_dim;
  const std::int64_t head = global_head_dim > 0 ? global_head_dim : head_dim;
  if (rope_scaling.type == "proportional") return head;
  return static_cast<std::int64_t>(static_cast<double>(head) * partial_rotary_factor);
}

std::int64_t LanguageConfig::expert_parameter_count() const {
  std::int64_t sparse = 0;
  for (std::int64_t layer = 0; layer < num_hidden_layers; ++layer) sparse += is_sparse(layer) ? 1 : 0;
  const std::int64_t biases = expert_bias ? 2 * moe_intermediate_size + hidden_size : 0;
  const std::int64_t matrices = is_gated(mlp) ? 3 : 2;
  return sparse * num_experts * (matrices * expert_width() * moe_intermediate_size + biases);
}

std::int64_t LanguageConfig::active_parameter_count() const {
  if (num_experts == 0) return parameter_count();
  return parameter_count() - expert_parameter_count() / num_experts * (num_experts - num_experts_per_tok);
}

double LanguageConfig::training_flops_per_token(std::int64_t sequence) const {
  std::int64_t matmul_parameters = active_parameter_count();
  if (!tie_word_embeddings) matmul_parameters -= vocab_size * embedding_size();  // a look-up
  if (position == PositionKind::learned) matmul_parameters -= max_position_embeddings * hidden_size;
  matmul_parameters -= vocab_size_per_layer_input * num_hidden_layers * hidden_size_per_layer_input;
  const auto attention = static_cast<double>(query_elements() * sequence);
  return 6.0 * static_cast<double>(matmul_parameters) + 6.0 * attention;
}

}  // namespace ingot
