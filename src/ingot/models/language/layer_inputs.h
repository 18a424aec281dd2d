#pragma once

#include <cstdint>
#include <memory>

#include "ingot/models/language/config.h"
#include "ingot/nn/embedding.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/norm.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"

namespace ingot {

/// x by √size, rounded to `stored` as Gemma's programs do: what they multiply embeddings with.
Tensor scaled_embedding(const Tensor& x, std::int64_t size, DType stored);

/// Per-layer embeddings (Gemma 4): a vector of each token for each layer, one part from a table of the
/// layers' own, the other from the model's embedding.
struct LayerInputs {
  LayerInputs(const ParamSource& source, const LanguageConfig& config);
  /// tokens [batch, sequence], their embeddings [batch, sequence, hidden] -> [batch, sequence, layers,
  /// width].
  Tensor operator()(const Tensor& tokens, const Tensor& embedded) const;
  void visit(ParamVisitor& v);

  Embedding embed_tokens_per_layer;   ///< [vocabulary, layers · width]
  Linear per_layer_model_projection;  ///< [layers · width, hidden]
  RmsNorm per_layer_projection_norm;  ///< of each layer's part
  std::int64_t layers, width, count, vocabulary, hidden;

 private:
  Tensor known(const Tensor& tokens) const;
};

/// What a layer makes of its own input: norm(project(gelu(gate(x)) · input)).
struct LayerInputGate {
  LayerInputGate(const ParamSource& source, const LanguageConfig& config);
  /// x [batch, sequence, hidden], input [batch, sequence, width]. Gives what is added to x.
  Tensor operator()(const Tensor& x, const Tensor& input) const;
  void visit(ParamVisitor& v);

  Linear per_layer_input_gate, per_layer_projection;
  RmsNorm post_per_layer_input_norm;
};

}  // namespace ingot
