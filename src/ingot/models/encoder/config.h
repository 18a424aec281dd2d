#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ingot/core/dtype.h"
#include "ingot/models/labels.h"
#include "ingot/nn/activation.h"

namespace ingot {

/// The architecture of an encoder like BERT: BERT, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT, ELECTRA,
/// ALBERT, MPNet. Fields carry the names of BERT's config.json.
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
  std::int64_t type_vocab_size = 2;  ///< 0: no embeddings of which text a token is of (DistilBERT)
  std::int64_t position_offset = 0;  ///< position of the first token: behind the padding's in RoBERTa
  /// > 0: the scores of attention get a learned summand for each class of distances, so many of them (MPNet).
  std::int64_t relative_attention_num_buckets = 0;
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

  /// Throws InvalidConfig naming the key of anything impossible.
  void validate() const;
  /// Tokens that a text may have.
  std::int64_t context() const { return max_position_embeddings - position_offset; }
  std::int64_t embedding_width() const { return embedding_size == 0 ? hidden_size : embedding_size; }
  /// Layers with weights of their own.
  std::int64_t distinct_layers() const {
    return num_hidden_groups == 0 ? num_hidden_layers : num_hidden_groups;
  }
  std::int64_t head_dim() const { return hidden_size / num_attention_heads; }
  std::int64_t parameter_count() const;

  /// Reads a config.json; `path` names it in errors. Unknown architectures are refused.
  static EncoderConfig from_json(std::string_view text, const std::string& path);
  /// A config.json that transformers opens.
  std::string to_json() const;
};

}  // namespace ingot
