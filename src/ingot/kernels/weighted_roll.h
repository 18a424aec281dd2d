#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

// Series that are shifted around a circle: x and y are [B, L, D], delays [B, K] of i64 in [0, L), weights [B,
// K]. Contiguous; all but the delays of one floating dtype.

/// y[b, t] = Σ_i weights[b, i] · x[b, (t + delays[b, i]) mod L]; with `transposed`, − instead of +, which is
/// the transpose as a map of x.
struct WeightedRollArgs {
  View x, delays, weights, y;
  bool transposed = false;
  bool accumulate = false;
};
inline Kernel<WeightedRollArgs> weighted_roll("weighted_roll");

/// y[b, i] = Σ_t x[b, (t + delays[b, i]) mod L] · dy[b, t]: the gradient of weighted_roll's weights. y: [B,
/// K].
struct WeightedRollDotArgs {
  View x, delays, dy, y;
  bool accumulate = false;
};
inline Kernel<WeightedRollDotArgs> weighted_roll_dot("weighted_roll_dot");

}  // namespace ingot::kernels
