#pragma once

#include <cstdint>

#include "ingot/models/language/config.h"
#include "ingot/models/language/decoder_attention.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/projection_group.h"
#include "ingot/nn/visit.h"

namespace ingot {

/// A gated delta net, instead of attention (Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464): the
/// input is projected to queries, keys and values, which go through a causal convolution, to a gate z, and to
/// a correction b and a decay a for each head. The gated delta rule of these gives y, and the result is
/// out_proj(norm(y) · silu(z)), each head by itself.
struct DeltaNet {
  DeltaNet(const ParamSource& source, const LanguageConfig& config);
  /// input: [batch, sequence, hidden]. Undefined where no row is wanted.
  Tensor operator()(const LinearInput& input, const DecoderContext& context, std::int64_t layer) const;
  void visit(ParamVisitor& v);

  ProjectionGroup in_proj;   ///< in_proj_q, in_proj_k, in_proj_v, in_proj_z, in_proj_b, in_proj_a
  Parameter conv_weight;     ///< conv1d.weight: [channels, 1, taps]
  Parameter a_log, dt_bias;  ///< A_log, dt_bias: [value heads]
  Parameter norm;            ///< norm.weight [value size]
  Linear out_proj;
  std::int64_t key_heads, value_heads, key_size, value_size;
  float eps;

 private:
  Tensor corrected(const Tensor& channels, const Tensor& correction, const Tensor& decay,
                   const DecoderContext& context, std::int64_t layer) const;
};

}  // namespace ingot
