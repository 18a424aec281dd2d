#pragma once

#include <array>

#include "ingot/models/language/families/gguf_rules.h"

// Names and metadata of Mamba 2 in GGUF files, as llama.cpp's converters write them.
namespace ingot::families {

inline constexpr std::array<GgufNameRule, 11> kMamba2Names{
    {{"token_embd", "backbone.embeddings"},
     {"output_norm", "backbone.norm_f"},
     {"output", "lm_head"},
     {"blk.*.attn_norm", "backbone.layers.*.norm"},
     {"blk.*.ssm_in", "backbone.layers.*.mixer.in_proj"},
     {"blk.*.ssm_conv1d", "backbone.layers.*.mixer.conv1d", conv_taps},
     {"blk.*.ssm_a", "backbone.layers.*.mixer.A_log", decay},
     {"blk.*.ssm_d", "backbone.layers.*.mixer.D", column},
     {"blk.*.ssm_dt", "backbone.layers.*.mixer.dt", bare},
     {"blk.*.ssm_norm", "backbone.layers.*.mixer.norm", group_rows},
     {"blk.*.ssm_out", "backbone.layers.*.mixer.out_proj"}}};
inline constexpr std::array<GgufKeyRule, 7> kMamba2Keys{
    {{"embedding_length", "hidden_size"},
     {"block_count", "num_hidden_layers"},
     {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon", number},
     {"ssm.conv_kernel", "conv_kernel"},
     {"ssm.state_size", "state_size"},
     {"ssm.time_step_rank", "num_heads"},
     {"ssm.group_count", "n_groups"}}};

/// Of layers of Mamba 2 among others.
inline constexpr std::array<GgufNameRule, 7> kMambaLayers{
    {{"blk.*.ssm_in", "model.layers.*.mamba.in_proj"},
     {"blk.*.ssm_conv1d", "model.layers.*.mamba.conv1d", conv_taps},
     {"blk.*.ssm_a", "model.layers.*.mamba.A_log", decay},
     {"blk.*.ssm_d", "model.layers.*.mamba.D", column},
     {"blk.*.ssm_dt", "model.layers.*.mamba.dt", bare},
     {"blk.*.ssm_norm", "model.layers.*.mamba.norm", group_rows},
     {"blk.*.ssm_out", "model.layers.*.mamba.out_proj"}}};
/// Of what Bamba and Falcon H1 call their norms and MLPs.
inline constexpr std::array<GgufNameRule, 7> kBambaMlp{
    {{"token_embd", "model.embed_tokens"},
     {"output_norm", "model.final_layernorm"},
     {"output", "lm_head"},
     {"blk.*.attn_norm", "model.layers.*.input_layernorm"},
     {"blk.*.ffn_gate", "model.layers.*.feed_forward.gate_proj"},
     {"blk.*.ffn_up", "model.layers.*.feed_forward.up_proj"},
     {"blk.*.ffn_down", "model.layers.*.feed_forward.down_proj"}}};
inline constexpr auto kBambaNames =
    kBambaMlp + kPairedAttention + kMambaLayers +
    std::array<GgufNameRule, 1>{{{"blk.*.ffn_norm", "model.layers.*.pre_ff_layernorm"}}};
inline constexpr auto kFalconH1Names =
    kBambaMlp + kAttention + kMambaLayers +
    std::array<GgufNameRule, 1>{{{"blk.*.ffn_norm", "model.layers.*.pre_ff_layernorm", unsuffixed}}};
inline constexpr auto kNemotronHNames =
    kMamba2Names + std::array<GgufNameRule, 6>{{{"blk.*.attn_q", "backbone.layers.*.mixer.q_proj"},
                                                {"blk.*.attn_k", "backbone.layers.*.mixer.k_proj"},
                                                {"blk.*.attn_v", "backbone.layers.*.mixer.v_proj"},
                                                {"blk.*.attn_output", "backbone.layers.*.mixer.o_proj"},
                                                {"blk.*.ffn_up", "backbone.layers.*.mixer.up_proj"},
                                                {"blk.*.ffn_down", "backbone.layers.*.mixer.down_proj"}}};
inline constexpr auto kNemotronHExpertNames =
    kNemotronHNames + std::array<GgufNameRule, 8>{
                          {{"blk.*.ffn_gate_inp", "backbone.layers.*.mixer.gate"},
                           {"blk.*.ffn_latent_down", "backbone.layers.*.mixer.fc1_latent_proj"},
                           {"blk.*.ffn_latent_up", "backbone.layers.*.mixer.fc2_latent_proj"},
                           {"blk.*.ffn_up_exps", "backbone.layers.*.mixer.experts.#.up_proj", experts},
                           {"blk.*.ffn_down_exps", "backbone.layers.*.mixer.experts.#.down_proj", experts},
                           {"blk.*.ffn_up_shexp", "backbone.layers.*.mixer.shared_experts.up_proj"},
                           {"blk.*.ffn_down_shexp", "backbone.layers.*.mixer.shared_experts.down_proj"},
                           {"blk.*.exp_probs_b", "backbone.layers.*.mixer.gate.e_score_correction", bare}}};
/// llama.cpp asks for both epsilons.
inline constexpr auto kNemotronHKeys =
    kCommonKeys +
    std::array<GgufKeyRule, 14>{{{"attention.layer_norm_epsilon", "layer_norm_epsilon", number},
                                 {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon", number},
                                 {"ssm.conv_kernel", "conv_kernel"},
                                 {"ssm.state_size", "ssm_state_size"},
                                 {"ssm.time_step_rank", "mamba_num_heads"},
                                 {"ssm.group_count", "n_groups"},
                                 {"expert_count", "n_routed_experts"},
                                 {"expert_shared_count", "n_shared_experts"},
                                 {"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"},
                                 {"moe_latent_size", "moe_latent_size"},
                                 {"expert_weights_scale", "routed_scaling_factor", number},
                                 {"expert_weights_norm", "norm_topk_prob", boolean},
                                 {"expert_group_count", "n_group"},
                                 {"expert_group_used_count", "topk_group"}}};
inline constexpr auto kGraniteHybridLayers = kOuter + kPairedAttention + kMlpNorm + kMambaLayers;
/// Without experts what is called the shared MLP is the MLP.
inline constexpr auto kGraniteHybridNames =
    kGraniteHybridLayers +
    std::array<GgufNameRule, 3>{{{"blk.*.ffn_gate", "model.layers.*.shared_mlp.input_linear", first_half},
                                 {"blk.*.ffn_up", "model.layers.*.shared_mlp.input_linear", second_half},
                                 {"blk.*.ffn_down", "model.layers.*.shared_mlp.output_linear"}}};
inline constexpr auto kGraniteHybridExpertNames = kGraniteHybridLayers + kGraniteExperts;
inline constexpr auto kBambaKeys =
    kLlamaKeys + std::array<GgufKeyRule, 4>{{{"ssm.conv_kernel", "mamba_d_conv"},
                                             {"ssm.state_size", "mamba_d_state"},
                                             {"ssm.time_step_rank", "mamba_n_heads"},
                                             {"ssm.group_count", "mamba_n_groups"}}};
inline constexpr auto kGraniteHybridKeys =
    kBambaKeys + std::array<GgufKeyRule, 4>{{{"embedding_scale", "embedding_multiplier", number},
                                             {"residual_scale", "residual_multiplier", number},
                                             {"attention.scale", "attention_multiplier", number},
                                             {"logit_scale", "logits_scaling", number}}};

}  // namespace ingot::families
