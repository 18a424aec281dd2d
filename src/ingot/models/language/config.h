#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/core/dtype.h"
#include "ingot/models/rope_scaling.h"
#include "ingot/nn/feed_forward.h"

namespace ingot {

/// layer_no_bias: LayerNorm with a weight alone. layer_plain: with neither weight nor bias (OLMo).
enum class NormKind : std::uint8_t { rms, layer, layer_no_bias, layer_plain };
/// Where a layer has its norms. pre: before attention and before the MLP. sandwich: also behind both (Gemma
/// 2). post: only behind both (OLMo 2). parallel: one norm, read by attention and MLP in parallel (Cohere).
/// parallel_two: in parallel, a norm for each (GPT-NeoX). sum: of each residual sum, as in the first
/// transformers (OPT 350m); there is none behind the last layer.
enum class NormPlacement : std::uint8_t { pre, sandwich, post, parallel, parallel_two, sum };
/// RMSNorm of queries and keys. head: each head, before RoPE. head_after_rope: each head, behind it. width:
/// all heads as one row, before RoPE. plain_after_rope: each head, behind it, in layers that have RoPE, and
/// without a weight (Llama 4).
enum class QkNorm : std::uint8_t { none, head, head_after_rope, width, plain_after_rope };
/// What a router makes of its logits: softmax over the experts, or a sigmoid of each (DeepSeek V3).
/// sparse_mixer: two choices one after another, each weighed by a softmax over those near the best that is
/// left (Phi 3.5 MoE).
enum class RouterScore : std::uint8_t { softmax, sigmoid, sparse_mixer };
/// alibi: scores grow by a slope of each head times the key's position (Press et al. 2021).
enum class PositionKind : std::uint8_t { rope, learned, alibi };
/// What mixes the tokens of a layer: attention, to everything, within a window or within chunks of the text
/// (Llama 4); a short convolution (LFM2), a selective scan (Mamba 2), the gated delta rule (Qwen 3 Next),
/// attention and a scan in parallel (Falcon H1), or nothing: the layer is an MLP alone, or experts alone
/// (Nemotron H).
enum class LayerKind : std::uint8_t { full, sliding, chunked, conv, mamba, delta, hybrid, mlp, moe };

/// Columns behind those of a head that hold ALiBi: a whole vector of them, of which two are used.
inline constexpr std::int64_t kAlibiColumns = 8;

/// What sets a family of decoders apart from Llama: the part of a configuration that its model_type decides.
struct DecoderTraits {
  NormKind norm = NormKind::rms;
  NormPlacement norm_placement = NormPlacement::pre;
  PositionKind position = PositionKind::rope;
  MlpKind mlp = MlpKind::swiglu;
  QkNorm qk_norm = QkNorm::none;
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool attention_gate = false;  ///< what attention mixed is weighed by a sigmoid (Qwen 3 Next)
  bool mlp_bias = false;
  bool norm_unit_offset = false;    ///< norms multiply by 1 + weight
  bool embedding_scale = false;     ///< embeddings times √hidden_size, rounded to their dtype
  bool interleaved_rope = false;    ///< pairs are (2i, 2i + 1), not (i, i + R/2)
  bool rope_needs_window = false;   ///< layers that see everything rotate nothing where others slide (NoPE)
  bool head_bias = false;           ///< logits have a bias (GPT-J, Phi 1 and 2)
  bool shared_expert_gate = false;  ///< the shared expert's output is weighed by a sigmoid (Qwen 2 MoE)
  RouterScore router_score = RouterScore::softmax;
  std::int64_t group_judges = 2;    ///< the best experts of a group that tell how good it is
  bool router_bias = false;         ///< added to the scores that choose experts, not to those that weigh them
  bool weighs_inputs = false;       ///< of experts, by sigmoids, and not what they give (Llama 4)
  double router_norm_eps = 0;       ///< added to the sum that the chosen experts' weights are divided by
  bool latent_attention = false;    ///< kv_lora_rank and its like are there (DeepSeek)
  bool expert_bias = false;         ///< routers (a bias of their logits) and experts are affine (gpt-oss)
  bool attention_sinks = false;     ///< a learned logit of each head that stands for no value (gpt-oss)
  bool embedding_norm = false;      ///< a norm of the embeddings, before the first layer (BLOOM)
  bool alibi_before_scale = false;  ///< slopes are bf16, and scaled as scores are (Falcon)
  bool mamba_layers = false;        ///< every layer is a selective scan, and has no MLP (Mamba 2)
  bool hybrid_layers = false;       ///< every layer has attention and a scan in parallel (Falcon H1)
  bool single_blocks = false;       ///< layers are a mixer without an MLP, or an MLP alone (Nemotron H)
  std::int64_t position_offset = 0;  ///< learned positions have so many rows in front (OPT)
  bool value_norm = false;           ///< of each head of values, without a weight (Gemma 4)
  bool layer_scalar = false;         ///< what a layer gives is multiplied by a number of its own (Gemma 4)
  bool experts_beside_mlp = false;   ///< sparse layers have both, and norms of each (Gemma 4)
  bool several_streams = false;      ///< AltUp and LAuReL: altup_num_inputs and its like are there (Gemma 3n)

  /// Whether there is a norm behind attention and one behind the MLP.
  bool has_post_norms() const {
    return norm_placement == NormPlacement::sandwich || norm_placement == NormPlacement::post;
  }
};

/// A decoder-only language model's architecture. Fields carry the names of Hugging Face's config.json.
struct LanguageConfig : DecoderTraits {
  std::string model_type = "llama";
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  ///< 0: as many as num_attention_heads
  std::int64_t head_dim = 0;             ///< 0: hidden_size / num_attention_heads
  // Of layers that do not slide, where those that do have other heads (Gemma 4).
  std::int64_t global_head_dim = 0;             ///< 0: head_dim
  std::int64_t num_global_key_value_heads = 0;  ///< 0: num_key_value_heads
  bool attention_k_eq_v = false;                ///< and no v_proj: values are keys before their norm
  /// The last so many layers have no keys and values, and read those of the last layer before them that sees
  /// as far.
  std::int64_t num_kv_shared_layers = 0;
  bool use_double_wide_mlp = false;  ///< of these layers
  // AltUp: tokens have several streams, of which each layer computes the active one (Gemma 3n).
  std::int64_t altup_num_inputs = 0;  ///< 0: one stream, and no AltUp; or in a family that has it derived
  std::int64_t altup_active_idx = 0;
  bool altup_correct_scale = true;  ///< the corrected stream is weighed before it meets the layer's input
  double altup_coef_clip = 120;  ///< kept, and not applied: transformers' limit of coefficients in training
  std::int64_t laurel_rank = 0;  ///< of LAuReL's matrix
  /// Of each layer's MLP: the part of the gate that is made 0, by a Gaussian's quantile; empty: none.
  std::vector<double> activation_sparsity_pattern;
  // Each layer has a vector of each token as an input of its own (Gemma 4); 0: none.
  std::int64_t hidden_size_per_layer_input = 0, vocab_size_per_layer_input = 0;
  // Multi-head latent attention (DeepSeek V2): keys and values of all heads come from kv_lora_rank numbers of
  // each token, and heads are qk_nope_head_dim elements and qk_rope_head_dim that rotate.
  std::int64_t kv_lora_rank = 0;  ///< 0: plain attention, or in a family of latent attention derived
  std::int64_t q_lora_rank = 0;   ///< of queries likewise; 0: they are projected at once
  std::int64_t qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  std::int64_t max_position_embeddings = 2048;
  std::int64_t word_embed_proj_dim = 0;  ///< width of the embeddings where layers are wider; 0: hidden_size
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  double rope_local_theta = 0;  ///< of sliding layers where they have their own (Gemma 3); 0: rope_theta
  double partial_rotary_factor = 1.0;  ///< the part of each head that rotates
  std::int64_t sliding_window = 0;     ///< tokens a query sees, itself included; 0: all before it
  /// Queries see what comes behind them, too, within sliding_window as far as before (EmbeddingGemma): a text
  /// encoder, which generates nothing.
  bool use_bidirectional_attention = false;
  std::int64_t attention_chunk_size = 0;  ///< positions of a chunk, in layers of that kind
  std::vector<LayerKind> layer_types;     ///< empty: all layers attend, and slide where sliding_window > 0
  std::int64_t conv_L_cache = 3;          ///< steps that a causal convolution sees, its own included
  bool conv_bias = false;  ///< of causal convolutions, and of the projections around short ones
  // Mamba 2's layers: mamba_n_heads states of mamba_d_head × mamba_d_state, whose B and C are the same in
  // each of mamba_n_groups groups of heads.
  std::int64_t mamba_n_heads = 0, mamba_d_head = 0, mamba_d_state = 0, mamba_n_groups = 1;
  bool mamba_proj_bias = false, mamba_out_bias = false;  ///< of in_proj, and of out_proj
  bool mamba_rms_norm = true;                            ///< y is normalized
  bool mamba_norm_before_gate = false;                   ///< and the gate weighs what the norm gave
  // Layers of the gated delta rule: a state of value size × key size for each value head; each key head is
  // that of neighbouring value heads.
  std::int64_t linear_num_key_heads = 0, linear_num_value_heads = 0;
  std::int64_t linear_key_head_dim = 0, linear_value_head_dim = 0;
  double least_time_step = 0, most_time_step = std::numeric_limits<double>::infinity();  ///< time_step_limit
  std::vector<std::int64_t>
      no_rope_layers;  ///< 1 for layers with RoPE, 0 for those without; empty: all have it
  std::int64_t query_pre_attn_scalar = 0;  ///< scores are divided by its square root; 0: head_dim
  double clip_qkv = 0;                     ///< queries, keys and values are clamped to ±this; 0: off
  double alibi_bias_max = 8;               ///< ALiBi: the slopes' exponents are from this / heads to this
  double attn_logit_softcapping = 0;       ///< scores become c·tanh(score / c); 0: off
  double final_logit_softcapping = 0;      ///< logits likewise
  bool tie_word_embeddings = true;
  double initializer_range = 0.02;
  DType dtype = DType::f32;
  std::int64_t bos_token_id = -1, eos_token_id = -1, pad_token_id = -1;  ///< -1: none

  // Mixture of experts: layers for which is_sparse() holds route each token to a few of num_experts MLPs.
  std::int64_t num_experts = 0;  ///< 0: none
  std::int64_t num_experts_per_tok = 0;
  std::int64_t moe_intermediate_size = 0;  ///< 0: intermediate_size
  bool norm_topk_prob = true;              ///< the chosen experts' weights are made to add up to 1
  std::int64_t decoder_sparse_step = 1;
  std::vector<std::int64_t> mlp_only_layers;
  double router_aux_loss_coef = 0.001;  ///< weight of load_balancing_loss in training
  /// Experts are chosen from the topk_group best of n_group groups; a group is as good as its group_judges
  /// best experts together.
  std::int64_t n_group = 1, topk_group = 1;
  double routed_scaling_factor = 1;   ///< of what the experts add
  double router_jitter_noise = 0.01;  ///< sparse_mixer: half of how far below the best, relatively, is near
  /// > 0: experts are (clamp(up, ±limit) + 1) · g · sigmoid(alpha · g), g = min(gate, limit) (gpt-oss).
  double swiglu_limit = 0, swiglu_alpha = 1;
  /// Of an MLP beside the experts that every token goes through; 0: there is none.
  std::int64_t shared_expert_intermediate_size = 0;
  /// > 0: experts take and give rows of this width, between two projections of all tokens (Nemotron 3).
  std::int64_t moe_latent_size = 0;

  // Factors that some families multiply with; 1: none.
  double embedding_multiplier = 1;                                                       ///< of embeddings
  double attention_in_multiplier = 1, attention_out_multiplier = 1, key_multiplier = 1;  ///< of attention
  double ssm_in_multiplier = 1, ssm_out_multiplier = 1;                                  ///< of Mamba
  std::vector<double> ssm_multipliers;  ///< of z, x, B, C and time steps; empty: 1
  double mlp_gate_multiplier = 1, mlp_down_multiplier = 1;
  double residual_multiplier = 1;   ///< of what attention and MLP add
  double logit_scale = 1;           ///< of logits
  double attention_multiplier = 0;  ///< of scores, instead of query_pre_attn_scalar; 0: none
  /// Queries are multiplied by 1 + this · log(1 + floor(position / the original context)); 0: none.
  double query_position_scale = 0;
  /// > 0: positions are counted from 1, by so many instead of the original context, and only queries of
  /// layers without RoPE grow (Llama 4).
  std::int64_t floor_scale = 0;

  /// Fills the zeros that mean "derive it", then throws InvalidConfig naming the key of anything impossible.
  void validate();
  /// Of the rows that experts take and give.
  std::int64_t expert_width() const { return moe_latent_size > 0 ? moe_latent_size : hidden_size; }
  bool slides(std::int64_t layer) const;
  /// Whether this layer has attention.
  bool attends(std::int64_t layer) const;
  /// Whether it has a short convolution, a selective scan (beside attention, too), or the gated delta rule.
  bool convolves(std::int64_t layer) const { return is_kind(layer, LayerKind::conv); }
  bool scans(std::int64_t layer) const {
    return is_kind(layer, LayerKind::mamba) || is_kind(layer, LayerKind::hybrid);
  }
  bool corrects(std::int64_t layer) const { return is_kind(layer, LayerKind::delta); }
  /// Whether this layer has a state.
  bool keeps_state(std::int64_t layer) const { return convolves(layer) || scans(layer) || corrects(layer); }
  /// Whether it has an MLP, or experts.
  bool has_mlp(std::int64_t layer) const {
    return single_blocks ? is_kind(layer, LayerKind::mlp) || is_kind(layer, LayerKind::moe) : !mamba_layers;
  }
  bool is_kind(std::int64_t layer, LayerKind kind) const {
    return !layer_types.empty() && layer_types[static_cast<std::size_t>(layer)] == kind;
  }
  /// Whether some layer keeps a state, instead of keys and values or beside them.
  bool is_recurrent() const;
  /// Whether some layer's state is a matrix for each head, which cannot go back, unlike a convolution's, of
  /// which more is kept.
  bool keeps_matrices() const { return has_mamba() || has_kind(LayerKind::delta); }
  bool has_mamba() const { return has_kind(LayerKind::mamba) || has_kind(LayerKind::hybrid); }
  bool has_kind(LayerKind kind) const;
  /// The matrices of such a state.
  struct StateSize {
    std::int64_t heads, size, width;
  };
  StateSize state_size() const {
    if (has_kind(LayerKind::delta))
      return {linear_num_value_heads, linear_value_head_dim, linear_key_head_dim};
    return {mamba_n_heads, mamba_d_head, mamba_d_state};
  }
  /// Channels of Mamba's y, and of any causal convolution.
  std::int64_t mamba_inner() const { return mamba_n_heads * mamba_d_head; }
  std::int64_t conv_channels() const;
  /// Layers with attention.
  std::int64_t attention_layers() const;
  /// Elements of the queries of all layers, for one token.
  std::int64_t query_elements() const;
  /// Tokens that a query of this layer sees; 0: all before it.
  std::int64_t window(std::int64_t layer) const { return slides(layer) ? sliding_window : 0; }
  /// Whether some layer slides.
  bool has_windows() const {
    return sliding_window > 0 && (layer_types.empty() || has_kind(LayerKind::sliding));
  }
  /// Positions of the chunks that this layer's queries see no further than; 0: it has none.
  std::int64_t chunk(std::int64_t layer) const {
    return is_kind(layer, LayerKind::chunked) ? attention_chunk_size : 0;
  }
  bool is_sparse(std::int64_t layer) const;
  /// Whether this layer's attention has RoPE.
  bool rotates(std::int64_t layer) const;
  /// Whether attention is multi-head latent attention.
  bool is_latent() const { return kv_lora_rank > 0; }
  /// Elements of a head of queries and keys, and of values.
  std::int64_t head_size(std::int64_t layer) const {
    return global_head_dim > 0 && !slides(layer) ? global_head_dim : head_dim;
  }
  std::int64_t value_size(std::int64_t layer) const { return is_latent() ? v_head_dim : head_size(layer); }
  std::int64_t kv_heads(std::int64_t layer) const {
    return num_global_key_value_heads > 0 && !slides(layer) ? num_global_key_value_heads
                                                            : num_key_value_heads;
  }
  /// The largest head of any layer.
  std::int64_t widest_head() const { return global_head_dim > head_dim ? global_head_dim : head_dim; }
  /// Whether this layer's values are its keys before their norm.
  bool has_keys_as_values(std::int64_t layer) const { return attention_k_eq_v && !slides(layer); }
  /// Layers with keys and values of their own: the first so many.
  std::int64_t layers_with_keys() const { return num_hidden_layers - num_kv_shared_layers; }
  /// The layer whose keys and values this one reads.
  std::int64_t key_layer(std::int64_t layer) const;
  bool reads_other_keys(std::int64_t layer) const { return layer >= layers_with_keys(); }
  /// Whether other layers read this one's.
  bool gives_keys(std::int64_t layer) const;
  /// What a KV cache holds of each token: so many heads, of so many elements. Of latent attention one, the
  /// latent and the rotary key, which is key and value.
  std::int64_t cached_heads(std::int64_t layer) const { return is_latent() ? 1 : kv_heads(layer); }
  std::int64_t cached_size(std::int64_t layer) const {
    if (is_latent()) return kv_lora_rank + qk_rope_head_dim;
    return position == PositionKind::alibi ? head_dim + kAlibiColumns : head_size(layer);
  }
  /// Elements of a token between layers.
  std::int64_t stream_width() const { return hidden_size * (altup_num_inputs > 0 ? altup_num_inputs : 1); }
  /// The part of this layer's MLP that is 0.
  double sparsity(std::int64_t layer) const {
    return activation_sparsity_pattern.empty() ? 0
                                               : activation_sparsity_pattern[static_cast<std::size_t>(layer)];
  }
  /// Width of this layer's MLP.
  std::int64_t mlp_width(std::int64_t layer) const {
    return use_double_wide_mlp && reads_other_keys(layer) ? 2 * intermediate_size : intermediate_size;
  }
  /// Parameters that belong to no layer: embeddings, the head, what makes the layers' inputs.
  std::int64_t parameters_outside_layers() const;
  /// Width of the embeddings and of the head.
  std::int64_t embedding_size() const { return word_embed_proj_dim > 0 ? word_embed_proj_dim : hidden_size; }
  /// Elements of a head that rotate, in layers that see everything where they differ.
  std::int64_t rotary_size() const;
  /// What their angles follow from; it refers to this.
  RotaryConfig rotary() const {
    return {rotary_size(),        max_position_embeddings,
            rope_theta,           rope_local_theta,
            rope_scaling,         global_head_dim > 0 ? head_dim : 0,
            partial_rotary_factor};
  }
  /// Parameters of the model, tied ones counted once.
  std::int64_t parameter_count() const;
  /// Those of all experts.
  std::int64_t expert_parameter_count() const;
  /// Those that take part in one token: all but the experts that it is not routed to.
  std::int64_t active_parameter_count() const;
  /// Floating-point operations of one training step per token at context length `sequence`: 6 per matmul
  /// parameter, and attention's causal half.
  double training_flops_per_token(std::int64_t sequence) const;

  /// Reads a config.json; `path` names it in errors. What the file leaves out has transformers' default for
  /// the family. Unknown architectures are refused with the near and the known ones.
  static LanguageConfig from_json(std::string_view text, const std::string& path);
  /// A config.json that transformers opens.
  std::string to_json() const;
};

/// The architectures that LanguageConfig::from_json knows: "llama", "gpt2", ...
std::vector<std::string> known_language_families();

/// Sets the traits of config.model_type. Throws InvalidConfig for an unknown one.
void apply_family(LanguageConfig& config);

}  // namespace ingot
