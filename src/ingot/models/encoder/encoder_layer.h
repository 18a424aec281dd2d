#pragma once

#include <cstdint>
#include <memory>

#include "ingot/models/encoder/config.h"
#include "ingot/models/encoder/disentangled_attention.h"
#include "ingot/models/encoder/input.h"
#include "ingot/models/rope_tables.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/norm.h"
#include "ingot/nn/projection_group.h"

namespace ingot {

/// Options of an encoder's linear maps and norms: normal weights of initializer_range, no bias yet.
LinearOptions encoder_linear(std::int64_t in, std::int64_t out, const EncoderConfig& config,
                             bool bias = true);
LayerNormOptions encoder_norm(std::int64_t width, const EncoderConfig& config);

/// What all layers of one forward pass share.
struct EncoderContext {
  EncoderInput input;  ///< with positions
  RopeTables rope;     ///< empty where positions are learned
  Tensor bias;         ///< [heads, n, n] of scores, or undefined
  Tensor distances{};  ///< embeddings of their classes (disentangled attention), or undefined
};

struct EncoderLayer {
  EncoderLayer(const ParamSource& source, const EncoderConfig& config, std::int64_t index);
  /// x: [batch, sequence, hidden].
  Tensor operator()(const Tensor& x, const EncoderContext& context) const;
  void visit(ParamVisitor& v);

  ProjectionGroup query_key_value;
  std::unique_ptr<DisentangledAttention> disentangled;  // DeBERTa's; or null
  Linear attention_output;
  /// Of the residual sum behind attention, or of what attention reads. Null: it reads the embeddings' norm.
  std::unique_ptr<LayerNorm> attention_norm;
  ProjectionGroup intermediate;  // gate and up where the MLP is gated, else one
  Linear output;
  LayerNorm output_norm;  // of the residual sum behind the MLP, or of what the MLP reads
  std::int64_t heads, window;
  Activation activation;
  bool norm_first, rotary;

 private:
  Tensor attend(const Tensor& x, const EncoderContext& context) const;
  Tensor mixed(Qkv qkv, const EncoderContext& context) const;
  Tensor feed(const Tensor& x) const;
};

}  // namespace ingot
