#pragma once

#include <cstdint>
#include <vector>

#include "ingot/models/language/config.h"
#include "ingot/models/language/decoder_attention.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"

namespace ingot {

/// Mamba 2's mixer, instead of attention (Dao and Gu 2024, arXiv:2405.21060, 7.1): the input is
/// projected to a gate z, to x, B and C, which go through a causal convolution, and to a time step for each
/// head. A selective scan of these gives y, and the result is out_proj(norm((y + D · x) · silu(z))); or there
/// is not a norm, or it is before the gate (Falcon H1).
struct Mamba {
  Mamba(const ParamSource& source, const LanguageConfig& config);
  /// input: [batch, sequence, hidden]. Undefined where no row is wanted.
  Tensor operator()(const LinearInput& input, const DecoderContext& context, std::int64_t layer) const;
  void visit(ParamVisitor& v);

  Linear in_proj;                    ///< z; x, B and C; time steps: one below another
  Parameter conv_weight, conv_bias;  ///< conv1d: [channels, 1, taps], [channels]; no bias: the model's
  Parameter a_log, d, dt_bias;       ///< A_log, D, dt_bias: [heads]
  Parameter norm;                    ///< norm.weight [inner], where the model has one
  Linear out_proj;
  std::int64_t heads, size, groups, width;  ///< of states: `size` × `width` for each head
  double least_step, most_step;             ///< of time, time_step_limit
  float eps;
  bool norm_before_gate;
  double in_multiplier;             ///< of the input; 1: none
  std::vector<double> multipliers;  ///< of z, x, B, C and time steps; empty: none

 private:
  Tensor scan(const Tensor& channels, const Tensor& steps, const DecoderContext& context,
              std::int64_t layer) const;
  std::vector<Tensor> projected(const LinearInput& input) const;
  Tensor in_groups(const Tensor& x) const;
  Tensor normed(const Tensor& y, const Tensor& gate) const;
};

}  // namespace ingot
