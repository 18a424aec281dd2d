#include "ingot/models/language/config_difference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "ingot/models/rope_tables.h"

namespace ingot {
namespace {

struct Number {
  const char* key;
  double (*of)(const LanguageConfig&);
};

template <auto Member>
double number(const LanguageConfig& c) {
  return static_cast<double>(c.*Member);
}

// What scores are multiplied with.
double score_scale(const LanguageConfig& c) {
  if (c.attention_multiplier > 0) return c.attention_multiplier;
  return 1 /
         std::sqrt(static_cast<double>(c.query_pre_attn_scalar > 0 ? c.query_pre_attn_scalar : c.head_dim));
}

using C = LanguageConfig;
const std::vector<Number>& numbers() {
  static const std::vector<Number> kNumbers{
      {"vocab_size", number<&C::vocab_size>},
      {"hidden_size", number<&C::hidden_size>},
      {"intermediate_size", number<&C::intermediate_size>},
      {"num_hidden_layers", number<&C::num_hidden_layers>},
      {"num_attention_heads", number<&C::num_attention_heads>},
      {"num_key_value_heads", number<&C::num_key_value_heads>},
      {"head_dim", number<&C::head_dim>},
      {"global_head_dim",
       [](const C& c) { return static_cast<double>(c.head_size(c.num_hidden_layers - 1)); }},
      {"num_global_key_value_heads",
       [](const C& c) { return static_cast<double>(c.kv_heads(c.num_hidden_layers - 1)); }},
      {"attention_k_eq_v", number<&C::attention_k_eq_v>},
      {"num_kv_shared_layers", number<&C::num_kv_shared_layers>},
      {"use_double_wide_mlp: a width of the last layer's MLP of",
       [](const C& c) { return static_cast<double>(c.mlp_width(c.num_hidden_layers - 1)); }},
      {"hidden_size_per_layer_input", number<&C::hidden_size_per_layer_input>},
      {"altup_num_inputs", number<&C::altup_num_inputs>},
      {"altup_active_idx", number<&C::altup_active_idx>},
      {"altup_correct_scale", number<&C::altup_correct_scale>},
      {"laurel_rank", number<&C::laurel_rank>},
      {"kv_lora_rank", number<&C::kv_lora_rank>},
      {"q_lora_rank", number<&C::q_lora_rank>},
      {"qk_rope_head_dim", number<&C::qk_rope_head_dim>},
      {"v_head_dim", number<&C::v_head_dim>},
      {"rope_interleave", number<&C::interleaved_rope>},
      {"n_group", number<&C::n_group>},
      {"topk_group", number<&C::topk_group>},
      {"routed_scaling_factor", number<&C::routed_scaling_factor>},
      {"max_position_embeddings", number<&C::max_position_embeddings>},
      {"norm_eps", number<&C::norm_eps>},
      {"query_pre_attn_scalar: a scale of scores of", score_scale},
      {"attn_logit_softcapping", number<&C::attn_logit_softcapping>},
      {"final_logit_softcapping", number<&C::final_logit_softcapping>},
      {"num_experts", number<&C::num_experts>},
      {"num_experts_per_tok", number<&C::num_experts_per_tok>},
      {"swiglu_limit", number<&C::swiglu_limit>},
      {"swiglu_alpha", number<&C::swiglu_alpha>},
      {"embedding_multiplier", number<&C::embedding_multiplier>},
      {"residual_multiplier", number<&C::residual_multiplier>},
      {"key_multiplier", number<&C::key_multiplier>},
      {"attention_in_multiplier", number<&C::attention_in_multiplier>},
      {"attention_out_multiplier", number<&C::attention_out_multiplier>},
      {"ssm_in_multiplier", number<&C::ssm_in_multiplier>},
      {"ssm_out_multiplier", number<&C::ssm_out_multiplier>},
      {"mlp_multipliers, of the gate", number<&C::mlp_gate_multiplier>},
      {"mlp_multipliers, behind down", number<&C::mlp_down_multiplier>},
      {"logit_scale", number<&C::logit_scale>},
      {"mamba_n_heads", number<&C::mamba_n_heads>},
      {"mamba_d_head", number<&C::mamba_d_head>},
      {"mamba_d_state", number<&C::mamba_d_state>},
      {"mamba_n_groups", number<&C::mamba_n_groups>},
      {"time_step_limit, from", number<&C::least_time_step>},
      {"mamba_proj_bias", number<&C::mamba_proj_bias>},
      {"mamba_rms_norm", number<&C::mamba_rms_norm>},
      {"mamba_norm_before_gate", number<&C::mamba_norm_before_gate>},
      {"linear_num_key_heads", number<&C::linear_num_key_heads>},
      {"linear_num_value_heads", number<&C::linear_num_value_heads>},
      {"linear_key_head_dim", number<&C::linear_key_head_dim>},
      {"linear_value_head_dim", number<&C::linear_value_head_dim>},
      {"shared_expert_intermediate_size", number<&C::shared_expert_intermediate_size>},
      {"moe_latent_size", number<&C::moe_latent_size>},
      {"llama_4_scaling_beta, or attn_scale,", number<&C::query_position_scale>},
      {"floor_scale", number<&C::floor_scale>},
      {"use_qk_norm", number<&C::qk_norm>},
      {"norm_placement: use_parallel_residual of", number<&C::norm_placement>},
      {"clip_qkv", number<&C::clip_qkv>},
      {"conv_bias", number<&C::conv_bias>},
      {"use_expert_bias: a correction bias of routers", number<&C::router_bias>},
      {"alibi_bias_max", number<&C::alibi_bias_max>},
      {"alibi", number<&C::position>},
      {"attention_bias", number<&C::qkv_bias>},
      {"bias of the attention output", number<&C::attention_output_bias>},
      {"mlp_bias", number<&C::mlp_bias>},
      {"use_bidirectional_attention", number<&C::use_bidirectional_attention>},
  };
  return kNumbers;
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

std::string told(const char* key, double wanted, double found) {
  return fmt::format("{} {} (readers would take {})", key, wanted, found);
}

std::optional<std::string> rope_difference(const C& wanted, const C& found) {
  if (wanted.position != PositionKind::rope) return std::nullopt;
  for (const std::int64_t length : {std::int64_t{1}, wanted.max_position_embeddings}) {
    const RopeFrequencies a = scaled_rope_frequencies(wanted.rotary(), length),
                          b = scaled_rope_frequencies(found.rotary(), length);
    bool same = a.inverse.size() == b.inverse.size() && near(a.attention_factor, b.attention_factor);
    for (std::size_t i = 0; same && i < a.inverse.size(); ++i)
      same = std::abs(a.inverse[i] - b.inverse[i]) <= 1e-5F * a.inverse[i];
    if (!same) return fmt::format("rope_scaling '{}' with these numbers", wanted.rope_scaling.type);
  }
  const auto local = [](const C& c) { return c.rope_local_theta > 0 ? c.rope_local_theta : c.rope_theta; };
  if (!near(local(wanted), local(found)))
    return told("rope_theta of sliding layers", local(wanted), local(found));
  return std::nullopt;
}

std::optional<std::string> layer_difference(const C& wanted, const C& found) {
  if (wanted.ssm_multipliers != found.ssm_multipliers) return "ssm_multipliers";
  for (std::int64_t i = 0; i < wanted.num_hidden_layers; ++i) {
    if (wanted.window(i) != found.window(i))
      return fmt::format("sliding_window {} of layer {} (readers would take {})", wanted.window(i), i,
                         found.window(i));
    if (wanted.chunk(i) != found.chunk(i))
      return fmt::format("attention_chunk_size {} of layer {} (readers would take {})", wanted.chunk(i), i,
                         found.chunk(i));
    const bool same_kind = wanted.attends(i) == found.attends(i) &&
                           wanted.convolves(i) == found.convolves(i) && wanted.scans(i) == found.scans(i) &&
                           wanted.corrects(i) == found.corrects(i);
    if (!same_kind) return fmt::format("layer_types, layer {}", i);
    if (wanted.rotates(i) != found.rotates(i)) return fmt::format("no_rope_layers, layer {}", i);
    if (!near(wanted.sparsity(i), found.sparsity(i)))
      return fmt::format("activation_sparsity_pattern, layer {}", i);
    if (wanted.is_sparse(i) != found.is_sparse(i)) return fmt::format("mlp_only_layers, layer {}", i);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> difference_of(const LanguageConfig& wanted, const LanguageConfig& found) {
  for (const Number& n : numbers()) {
    const double a = n.of(wanted), b = n.of(found);
    if (!near(a, b)) return told(n.key, a, b);
  }
  if (wanted.num_experts > 0 && wanted.norm_topk_prob != found.norm_topk_prob)
    return told("norm_topk_prob", wanted.norm_topk_prob ? 1 : 0, found.norm_topk_prob ? 1 : 0);
  if (wanted.num_experts > 0 && wanted.moe_intermediate_size != found.moe_intermediate_size)
    return told("moe_intermediate_size", static_cast<double>(wanted.moe_intermediate_size),
                static_cast<double>(found.moe_intermediate_size));
  if (wanted.is_recurrent() && wanted.conv_L_cache != found.conv_L_cache)
    return told("conv_L_cache", static_cast<double>(wanted.conv_L_cache),
                static_cast<double>(found.conv_L_cache));
  if (wanted.has_mamba() && wanted.most_time_step != found.most_time_step)
    return told("time_step_limit, to", wanted.most_time_step, found.most_time_step);
  if (auto layer = layer_difference(wanted, found)) return layer;
  return rope_difference(wanted, found);
}

}  // namespace ingot
