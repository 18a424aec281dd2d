#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

// Series that are shifted around a circle: x and y are [B, L, D], delays [B, K] of i64 in [0, L), weights [B,
// K]. Contiguous; all but the delays of one floating dtype.

/// y[b, t] = Σ_i weights[b, i] · x[b, (t + delays[b, i]) mod L]; with `transposed`, − in place of +, which is
/// the transpose as a map of x.
struct DelayedSumArgs {
  View x, delays, weights, y;
  bool transposed = false;
  bool accumulate = false;
};
inline Kernel<DelayedSumArgs> delayed_sum("delayed_sum");

/// y[b, i] = Σ_t x[b, (t + delays[b, i]) mod L] · dy[b, t]: the gradient of delayed_sum's weights. y: [B, K].
struct DelayedDotArgs {
  View x, delays, dy, y;
  bool accumulate = false;
};
inline Kernel<DelayedDotArgs> delayed_dot("delayed_dot");

}  // namespace ingot::kernels
