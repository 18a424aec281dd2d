#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/core/dtype.h"
#include "ingot/nn/feed_forward.h"

namespace ingot {

enum class NormKind : std::uint8_t { rms, layer };
enum class PositionKind : std::uint8_t { rope, learned };
enum class AttentionKind : std::uint8_t { full, sliding };

/// How a model stretches its rotary positions over a longer context than it was trained on (`rope_scaling`,
/// transformers' modeling_rope_utils). Zeros mean "derive it", which LanguageConfig::validate does.
struct RopeScaling {
  std::string type = "default";  ///< "default", "linear", "dynamic", "yarn", "longrope", "llama3"
  double factor = 0;             ///< 0: the ratio of the context lengths for yarn and longrope, 1 otherwise
  std::int64_t original_max_position_embeddings = 0;  ///< 0: max_position_embeddings
  double low_freq_factor = 1.0;                       ///< llama3
  double high_freq_factor = 4.0;                      ///< llama3
  double attention_factor = 0;                        ///< yarn, longrope: factor of cos and sin; 0: derived
  double beta_fast = 32, beta_slow = 1;               ///< yarn
  double mscale = 0, mscale_all_dim = 0;              ///< yarn
  bool truncate = true;                               ///< yarn: whole dimensions as limits
  std::vector<double> short_factor, long_factor;      ///< longrope: one per pair of a head
  /// Whether sequences of different lengths have different tables.
  bool depends_on_length() const { return type == "dynamic" || type == "longrope"; }
};

/// A decoder-only language model's architecture. Fields carry the names of Hugging Face's config.json.
struct LanguageConfig {
  std::string model_type = "llama";
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  ///< 0: as many as num_attention_heads
  std::int64_t head_dim = 0;             ///< 0: hidden_size / num_attention_heads
  std::int64_t max_position_embeddings = 2048;
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  double rope_local_theta = 0;  ///< of sliding layers where they have their own (Gemma 3); 0: rope_theta
  double partial_rotary_factor = 1.0;      ///< the part of each head that turns
  std::int64_t sliding_window = 0;         ///< tokens a query sees, itself included; 0: all before it
  std::vector<AttentionKind> layer_types;  ///< which layers slide; empty: all, where sliding_window > 0
  std::int64_t query_pre_attn_scalar = 0;  ///< scores are divided by its square root; 0: head_dim
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

  // What sets a family apart; filled from model_type.
  NormKind norm = NormKind::rms;
  PositionKind position = PositionKind::rope;
  MlpKind mlp = MlpKind::swiglu;
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;           ///< RMSNorm over each query and key head, before RoPE
  bool norm_unit_offset = false;  ///< norms multiply by 1 + weight
  bool post_norms = false;        ///< a norm also behind attention and behind the MLP
  bool embedding_scale = false;   ///< embeddings times √hidden_size, rounded to their dtype

  /// Fills the zeros that mean "derive it", then throws InvalidConfig naming the key of anything impossible.
  void validate();
  bool slides(std::int64_t layer) const;
  /// Tokens that a query of this layer sees; 0: all before it.
  std::int64_t window(std::int64_t layer) const { return slides(layer) ? sliding_window : 0; }
  bool is_sparse(std::int64_t layer) const;
  /// Elements of a head that turn.
  std::int64_t rotary_size() const;
  /// Parameters of the model, tied ones counted once.
  std::int64_t parameter_count() const;
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

/// Sets the family fields (norm, position, ...) of config.model_type. Throws InvalidConfig for an unknown
/// one.
void apply_family(LanguageConfig& config);

}  // namespace ingot
