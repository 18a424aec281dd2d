#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ingot/models/architecture_check.h"
#include "ingot/models/encoder/config.h"
#include "ingot/models/encoder/encoder_layer.h"
#include "ingot/models/encoder/input.h"
#include "ingot/nn/embedding.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/norm.h"

namespace ingot {

/// What BERT is trained with: a transformation of each hidden state, then the word embeddings once more.
struct MaskedLmHead {
  MaskedLmHead(const ParamSource& source, const EncoderConfig& config);
  void visit(ParamVisitor& v);

  Linear transform;
  LayerNorm norm;
  Parameter bias;  ///< [vocab]; or undefined
};

/// From hidden states to logits of labels: of a text, through a linear map and a norm of its own where the
/// family has them (family.h), or of each token.
struct ClassifierHead {
  ClassifierHead(const ParamSource& source, const EncoderConfig& config);
  /// [..., hidden], the pooler's where it takes the first map's place -> [..., labels].
  Tensor operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  std::unique_ptr<Linear> dense;    // or null
  std::unique_ptr<LayerNorm> norm;  // behind the activation; or null
  Linear out;
  Activation activation;
};

/// BERT (Devlin et al. 2018) and its kin (family.h): every token sees every other of its text. Parameter
/// names are those of transformers' BertModel; the masked-LM head's are those of BertForMaskedLM.
struct BertModel {
  using Config = EncoderConfig;

  BertModel(EncoderConfig config, const ParamSource& source);

  static WeightMap weight_map(const EncoderConfig& config);
  static ArchitectureReport architecture_check(const EncoderConfig& config, const WeightSource& weights);
  /// Checks, then loads. Throws Error that lists every missing, unexpected and mis-shaped tensor.
  static std::unique_ptr<BertModel> from_weights(const EncoderConfig& config, const WeightSource& weights,
                                                 const LoadOptions& options = {});

  /// Hidden states of the last layer: [batch, sequence, hidden]. Rows of padding hold nothing of use.
  Tensor hidden(const EncoderInput& input) const;
  /// [batch, sequence, hidden] -> [batch, hidden]: the first token's through the pooler. Needs config.pooler.
  Tensor pooled(const Tensor& hidden) const;
  /// [..., hidden] -> [..., vocab]. Needs config.masked_lm_head.
  Tensor logits(const Tensor& hidden) const;
  /// What the labels of each text of `input` are told from, [texts, hidden], texts in their order: the
  /// hidden state of its first token, or the mean of all of them (config.classifier_pooling). hidden: [batch,
  /// sequence, hidden].
  Tensor text_states(const Tensor& hidden, const EncoderInput& input) const;
  /// [..., hidden] -> [..., labels], without softmax: of texts, given their text_states(), or of tokens,
  /// given their hidden states (config.labels.of). Needs config.labels.
  Tensor label_logits(const Tensor& hidden) const;
  void visit(ParamVisitor& v);
  /// Where the weights are, and inputs have to be.
  Device device() const { return embedding_norm.weight.value.device(); }

  EncoderConfig config;
  Embedding word_embeddings;
  std::unique_ptr<Embedding> position_embeddings;    // null: positions are elsewhere
  std::unique_ptr<Embedding> token_type_embeddings;  // null where config.type_vocab_size is 0
  LayerNorm embedding_norm;
  std::unique_ptr<Linear> embeddings_project;          // null where embeddings are as wide as the layers
  std::unique_ptr<Embedding> relative_attention_bias;  // [buckets, heads]; null where the family has none
  std::unique_ptr<Embedding> distance_embeddings;      // [2 · span, hidden] of disentangled attention
  std::unique_ptr<LayerNorm> distance_norm;
  std::unique_ptr<EncoderConvolution> convolution;  // beside the first layer, where the family has one
  std::vector<std::unique_ptr<EncoderLayer>> layers;
  std::unique_ptr<LayerNorm> final_norm;  // where norms come first
  std::unique_ptr<Linear> pooler;
  std::unique_ptr<MaskedLmHead> masked_lm;
  std::unique_ptr<ClassifierHead> classifier;

 private:
  Tensor through_pooler(const Tensor& first_tokens) const;
  void take_distances(const ParamSource& source);
  Tensor attention_bias(const EncoderInput& input) const;
  Tensor distances() const;
  Tensor embed(const EncoderInput& input) const;
  EncoderContext context_of(const EncoderInput& input) const;
  mutable RopeTables rope_;  // grown on demand
};

/// The parameters of a model, under their names here.
std::vector<ParameterShape> encoder_parameters(const EncoderConfig& config);

/// The configuration with pooler, masked-LM head and number of labels as the checkpoint has them.
EncoderConfig with_heads_of(EncoderConfig config, const WeightSource& weights);

/// Opens a model directory as Hugging Face tools write it, or a GGUF file (gguf_encoder.h); what stands on
/// the encoder (pooler, masked-LM head) is what the file holds. Throws IoError, FormatError, or Error that
/// lists everything that does not fit.
std::unique_ptr<BertModel> load_bert(const std::string& directory, const LoadOptions& options = {});
/// Writes config.json and model.safetensors under the names of transformers.
void write_bert(const std::string& directory, BertModel& model);

}  // namespace ingot
