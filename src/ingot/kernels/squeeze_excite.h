#pragma once

#include "ingot/kernels/group_norm.h"
#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// What a gate is made of: each channel's mean over the positions, or that and its maximum, through the same
/// layers.
enum class SqueezePool : std::uint8_t { mean, mean_and_max };
constexpr std::int64_t pools_of(SqueezePool pool) { return pool == SqueezePool::mean ? 1 : 2; }

/// The end of a squeeze-and-excitation residual block (Hu et al. 2018), in one pass over a sample:
/// gate = sigmoid(Σ over pools of w2 · relu(w1 · pooled + b1) + b2);  y = act(x · gate + residual).
/// x, residual, y: [N, S, C]; w1: [R, C]; b1: [R]; w2: [C, R]; b2: [C]; written for the backward pass, in the
/// accumulator dtype: pooled: [N, P, C]; hidden: [N, P, R], P = pools_of(pool); gate: [N, C]. All contiguous.
struct SqueezeExciteArgs {
  View x, residual, w1, b1, w2, b2, y, pooled, hidden, gate;
  SqueezePool pool = SqueezePool::mean;
  NormActivation activation = NormActivation::mish;
};
inline Kernel<SqueezeExciteArgs> squeeze_excite("squeeze_excite");

/// Gradients of squeeze_excite; each destination may be absent. Positions that share a maximum share its
/// gradient. scratch: [scratch_parts(device), squeeze_excite_scratch] in the accumulator dtype.
struct SqueezeExciteBackwardArgs {
  View x, residual, w1, w2, pooled, hidden, gate, dy;
  View dx, dresidual, dw1, db1, dw2, db2, scratch;
  SqueezePool pool = SqueezePool::mean;
  NormActivation activation = NormActivation::mish;
  bool accumulate_dx = false, accumulate_dresidual = false;
  bool accumulate_dw1 = false, accumulate_db1 = false, accumulate_dw2 = false, accumulate_db2 = false;
};
inline Kernel<SqueezeExciteBackwardArgs> squeeze_excite_backward("squeeze_excite_backward");

/// Per part: the gradients of w1, b1, w2 and b2 in this order, then dz of one sample, the gradients of gate
/// and pools, how many positions share the maximum, and the gradients of the hidden layers.
constexpr std::int64_t squeeze_excite_scratch(std::int64_t s, std::int64_t c, std::int64_t r,
                                              SqueezePool pool) {
  return 2 * r * c + r + c + s * c + (2 + pools_of(pool)) * c + pools_of(pool) * r;
}

}  // namespace ingot::kernels
