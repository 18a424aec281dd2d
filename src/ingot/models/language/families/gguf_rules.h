#pragma once

#include <algorithm>
#include <array>

#include "ingot/models/language/gguf_names.h"

// Names that several families share, as llama.cpp's convert_hf_to_gguf.py and gguf-py's tensor_mapping.py
// have them.
namespace ingot::families {

using enum GgufChange;
using enum GgufKeyKind;

template <class Rule, std::size_t A, std::size_t B>
constexpr std::array<Rule, A + B> operator+(const std::array<Rule, A>& a, const std::array<Rule, B>& b) {
  std::array<Rule, A + B> all{};
  std::ranges::copy(a, all.begin());
  std::ranges::copy(b, all.begin() + A);
  return all;
}

inline constexpr std::array<GgufNameRule, 3> kEnds{
    {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}}};
inline constexpr std::array<GgufNameRule, 1> kAttentionNorm{
    {{"blk.*.attn_norm", "model.layers.*.input_layernorm"}}};
inline constexpr std::array<GgufNameRule, 3> kMlp{{{"blk.*.ffn_gate", "model.layers.*.mlp.gate_proj"},
                                                   {"blk.*.ffn_up", "model.layers.*.mlp.up_proj"},
                                                   {"blk.*.ffn_down", "model.layers.*.mlp.down_proj"}}};
inline constexpr std::array<GgufNameRule, 1> kMlpNorm{
    {{"blk.*.ffn_norm", "model.layers.*.post_attention_layernorm"}}};
inline constexpr std::array<GgufNameRule, 4> kAttention{
    {{"blk.*.attn_q", "model.layers.*.self_attn.q_proj"},
     {"blk.*.attn_k", "model.layers.*.self_attn.k_proj"},
     {"blk.*.attn_v", "model.layers.*.self_attn.v_proj"},
     {"blk.*.attn_output", "model.layers.*.self_attn.o_proj"}}};
inline constexpr std::array<GgufNameRule, 4> kPairedAttention{
    {{"blk.*.attn_q", "model.layers.*.self_attn.q_proj", query_rows},
     {"blk.*.attn_k", "model.layers.*.self_attn.k_proj", key_rows},
     {"blk.*.attn_v", "model.layers.*.self_attn.v_proj"},
     {"blk.*.attn_output", "model.layers.*.self_attn.o_proj"}}};
inline constexpr std::array<GgufNameRule, 2> kHeadNorms{
    {{"blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm"},
     {"blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm"}}};
/// Of families whose layers have norms behind attention and MLP alone.
inline constexpr std::array<GgufNameRule, 2> kPostNorms{
    {{"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm"},
     {"blk.*.post_ffw_norm", "model.layers.*.post_feedforward_layernorm"}}};

inline constexpr auto kOuter = kEnds + kAttentionNorm;
inline constexpr auto kLlamaNames = kOuter + kPairedAttention + kMlp + kMlpNorm;
inline constexpr auto kQwen2Names = kOuter + kAttention + kMlp + kMlpNorm;

inline constexpr auto kHeadNormNames = kQwen2Names + kHeadNorms;
inline constexpr auto kPostNormNames = kEnds + kAttention + kMlp + kHeadNorms + kPostNorms;
/// MLPs without a gate.
inline constexpr std::array<GgufNameRule, 2> kPlainMlp{
    {{"blk.*.ffn_up", "model.layers.*.mlp.up_proj"}, {"blk.*.ffn_down", "model.layers.*.mlp.down_proj"}}};
inline constexpr std::array<GgufNameRule, 4> kExperts{
    {{"blk.*.ffn_gate_inp", "model.layers.*.mlp.gate"},
     {"blk.*.ffn_gate_exps", "model.layers.*.mlp.experts.#.gate_proj", experts},
     {"blk.*.ffn_up_exps", "model.layers.*.mlp.experts.#.up_proj", experts},
     {"blk.*.ffn_down_exps", "model.layers.*.mlp.experts.#.down_proj", experts}}};

/// As Phi 3.5 MoE and MiniMax call them.
inline constexpr std::array<GgufNameRule, 4> kBlockExperts{
    {{"blk.*.ffn_gate_inp", "model.layers.*.block_sparse_moe.gate"},
     {"blk.*.ffn_gate_exps", "model.layers.*.block_sparse_moe.experts.#.w1", experts},
     {"blk.*.ffn_up_exps", "model.layers.*.block_sparse_moe.experts.#.w3", experts},
     {"blk.*.ffn_down_exps", "model.layers.*.block_sparse_moe.experts.#.w2", experts}}};

/// Granite's, with gate and up in one tensor, and the shared one.
inline constexpr std::array<GgufNameRule, 7> kGraniteExperts{
    {{"blk.*.ffn_gate_inp", "model.layers.*.block_sparse_moe.router.layer"},
     {"blk.*.ffn_gate_exps", "model.layers.*.block_sparse_moe.input_linear", first_half},
     {"blk.*.ffn_up_exps", "model.layers.*.block_sparse_moe.input_linear", second_half},
     {"blk.*.ffn_down_exps", "model.layers.*.block_sparse_moe.output_linear"},
     {"blk.*.ffn_gate_shexp", "model.layers.*.shared_mlp.input_linear", first_half},
     {"blk.*.ffn_up_shexp", "model.layers.*.shared_mlp.input_linear", second_half},
     {"blk.*.ffn_down_shexp", "model.layers.*.shared_mlp.output_linear"}}};

/// An expert that every token goes through, weighed by a gate (Qwen 2 MoE).
inline constexpr std::array<GgufNameRule, 4> kGatedSharedExpert{
    {{"blk.*.ffn_gate_inp_shexp", "model.layers.*.mlp.shared_expert_gate", one_row},
     {"blk.*.ffn_gate_shexp", "model.layers.*.mlp.shared_expert.gate_proj"},
     {"blk.*.ffn_up_shexp", "model.layers.*.mlp.shared_expert.up_proj"},
     {"blk.*.ffn_down_shexp", "model.layers.*.mlp.shared_expert.down_proj"}}};

/// Experts that every token goes through, as DeepSeek calls them, and the bias of the others' choice.
inline constexpr std::array<GgufNameRule, 4> kSharedExperts{
    {{"blk.*.ffn_gate_shexp", "model.layers.*.mlp.shared_experts.gate_proj"},
     {"blk.*.ffn_up_shexp", "model.layers.*.mlp.shared_experts.up_proj"},
     {"blk.*.ffn_down_shexp", "model.layers.*.mlp.shared_experts.down_proj"},
     {"blk.*.exp_probs_b", "model.layers.*.mlp.gate.e_score_correction", bare}}};

inline constexpr std::array<GgufKeyRule, 14> kCommonKeys{
    {{"context_length", "max_position_embeddings"},
     {"embedding_length", "hidden_size"},
     {"block_count", "num_hidden_layers"},
     {"feed_forward_length", "intermediate_size"},
     {"attention.head_count", "num_attention_heads"},
     {"attention.head_count_kv", "num_key_value_heads"},
     {"attention.key_length", "head_dim"},
     {"attention.sliding_window", "sliding_window"},
     {"attn_logit_softcapping", "attn_logit_softcapping", number},
     {"final_logit_softcapping", "final_logit_softcapping", number},
     {"rope.freq_base", "rope_theta", number},
     {"expert_count", "num_experts"},
     {"expert_used_count", "num_experts_per_tok"},
     {"expert_feed_forward_length", "moe_intermediate_size"}}};
inline constexpr std::array<GgufKeyRule, 1> kRmsEps{
    {{"attention.layer_norm_rms_epsilon", "rms_norm_eps", number}}};
inline constexpr std::array<GgufKeyRule, 1> kLayerEps{
    {{"attention.layer_norm_epsilon", "layer_norm_eps", number}}};
inline constexpr auto kLlamaKeys = kCommonKeys + kRmsEps;
inline constexpr auto kGatedSharedExpertKeys =
    kLlamaKeys +
    std::array<GgufKeyRule, 1>{{{"expert_shared_feed_forward_length", "shared_expert_intermediate_size"}}};
/// As DeepSeek's experts are described.
inline constexpr auto kDeepseekExpertKeys =
    kLlamaKeys + std::array<GgufKeyRule, 7>{{{"expert_count", "n_routed_experts"},
                                             {"expert_shared_count", "n_shared_experts"},
                                             {"leading_dense_block_count", "first_k_dense_replace"},
                                             {"expert_weights_scale", "routed_scaling_factor", number},
                                             {"expert_weights_norm", "norm_topk_prob", boolean},
                                             {"expert_group_count", "n_group"},
                                             {"expert_group_used_count", "topk_group"}}};
inline constexpr auto kLayerNormKeys = kCommonKeys + kLayerEps;

}  // namespace ingot::families
