#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/core/dtype.h"
#include "ingot/models/labels.h"
#include "ingot/models/rope_scaling.h"
#include "ingot/nn/activation.h"

namespace ingot {

/// What a text's labels are told from: its first token, or the mean of all.
enum class ClassifierPooling : std::uint8_t { first, mean };

/// The architecture of an encoder like BERT: BERT, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT, ELECTRA,
/// ALBERT, MPNet, ModernBERT, Nomic BERT, DeBERTa v2. Fields carry the names of BERT's config.json.
struct EncoderConfig {
  std::string model_type = "bert";
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  /// Width of the embeddings where a linear map brings them to hidden_size (ELECTRA, ALBERT); 0: hidden_size.
  std::int64_t embedding_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_hidden_groups =
      0;  ///< layers that share one set of weights form a group (ALBERT); 0: none share
  std::int64_t num_attention_heads = 0;
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 2;  ///< 0: no embeddings of which segment a token is of (DistilBERT)
  std::int64_t position_offset = 0;  ///< position of the first token: behind the padding's in RoBERTa
  /// > 0: the scores of attention get a learned summand for each class of distances, so many of them (MPNet).
  std::int64_t relative_attention_num_buckets = 0;
  /// Elements of a head; 0: hidden_size / num_attention_heads.
  std::int64_t attention_head_size = 0;
  double rope_theta = 0;        ///< base of rotary positions; 0: positions are learned, in a table
  double rope_local_theta = 0;  ///< of sliding layers where they have their own; 0: rope_theta
  RopeScaling rope_scaling;
  /// Sliding layers see so many tokens before and behind each, itself included in each count; 0: none slides.
  std::int64_t sliding_window = 0;
  std::vector<bool> sliding_layers;  ///< of each layer; empty: none
  /// Norms are of what attention and MLP read, and one is behind the last layer; the first attention reads
  /// the embeddings' norm (ModernBERT). False: norms are of each residual sum.
  bool norm_first = false;
  bool gated_mlp = false;  ///< the MLP is down(act(gate) · up)
  bool attention_bias = true, mlp_bias = true, norm_bias = true;
  bool head_bias = true;     ///< the linear map of the heads has a bias
  bool decoder_bias = true;  ///< logits of the vocabulary have one
  // Disentangled attention (DeBERTa): scores of distances beside those of contents.
  bool relative_attention = false;
  bool c2p = false, p2c = false;            ///< content with distances, distances with content (pos_att_type)
  bool share_att_key = false;               ///< distances go through the maps of queries and keys
  bool norm_rel_ebd = false;                ///< a norm of the distances' embeddings
  std::int64_t position_buckets = 0;        ///< classes on each side; 0: each distance is one
  std::int64_t max_relative_positions = 0;  ///< distances on each side
  bool position_biased_input = true;        ///< positions are also in the embeddings
  std::int64_t conv_kernel_size = 0;        ///< of a convolution beside the first layer; 0: none
  std::int64_t conv_groups = 1;
  Activation conv_act = Activation::tanh;
  Activation pooler_act = Activation::tanh;
  double layer_norm_eps = 1e-12;
  Activation hidden_act = Activation::gelu;
  Activation head_act = Activation::gelu;  ///< in the masked-LM head; RoBERTa's is always gelu
  double initializer_range = 0.02;
  std::int64_t pad_token_id = 0;
  DType dtype = DType::f32;

  // What stands on the encoder; config.json does not tell reliably, the checkpoint's tensors do.
  bool pooler = true;           ///< tanh of a linear map of the first token
  bool masked_lm_head = false;  ///< logits of the vocabulary, tied to the word embeddings
  Labels labels;                ///< of a classifier; LabelsOf::nothing: there is none
  ClassifierPooling classifier_pooling = ClassifierPooling::first;

  /// Fills the zeros of rope_scaling, then throws InvalidConfig naming the key of anything impossible.
  void validate();
  /// Tokens that a text may have.
  std::int64_t context() const { return max_position_embeddings - position_offset; }
  std::int64_t embedding_width() const { return embedding_size == 0 ? hidden_size : embedding_size; }
  /// Layers with weights of their own.
  std::int64_t distinct_layers() const {
    return num_hidden_groups == 0 ? num_hidden_layers : num_hidden_groups;
  }
  std::int64_t head_dim() const {
    return attention_head_size == 0 ? hidden_size / num_attention_heads : attention_head_size;
  }
  /// Width of queries, keys and values.
  std::int64_t attention_width() const { return num_attention_heads * head_dim(); }
  bool is_rotary() const { return rope_theta > 0; }
  /// Whether a table of positions is added to the embeddings.
  bool has_position_table() const { return !is_rotary() && position_biased_input; }
  /// Whether attention is DeBERTa's.
  bool is_disentangled() const { return relative_attention || c2p || p2c; }
  /// Classes of distances on each side.
  std::int64_t relative_span() const {
    return position_buckets > 0 ? position_buckets : max_relative_positions;
  }
  /// What the angles of heads follow from; it refers to this.
  RotaryConfig rotary() const {
    return {head_dim(), max_position_embeddings, rope_theta, rope_local_theta, rope_scaling};
  }
  /// Tokens that a query of this layer sees on each side, itself included; 0: all.
  std::int64_t window(std::int64_t layer) const {
    return sliding_layers.empty() || !sliding_layers[static_cast<std::size_t>(layer)] ? 0 : sliding_window;
  }
  std::int64_t parameter_count() const;

  /// Reads a config.json; `path` names it in errors. Unknown architectures are refused.
  static EncoderConfig from_json(std::string_view text, const std::string& path);
  /// A config.json that transformers opens.
  std::string to_json() const;
};

}  // namespace ingot
