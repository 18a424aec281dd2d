#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// The end of a squeeze-and-excitation residual block (Hu et al. 2018), in one pass over a sample:
/// gate = sigmoid(w2 · relu(w1 · mean over S of x + b1) + b2);  y = mish(x · gate + residual).
/// x, residual, y: [N, S, C]; w1: [R, C]; b1: [R]; w2: [C, R]; b2: [C]; written for the backward pass, in the
/// accumulator dtype: pooled, gate: [N, C]; hidden: [N, R]. All contiguous.
struct SqueezeExciteArgs {
  View x, residual, w1, b1, w2, b2, y, pooled, hidden, gate;
};
inline Kernel<SqueezeExciteArgs> squeeze_excite("squeeze_excite");

/// Gradients of squeeze_excite; each destination may be absent. scratch: [scratch_parts(device),
/// squeeze_excite_scratch] in the accumulator dtype.
struct SqueezeExciteBackwardArgs {
  View x, residual, w1, w2, pooled, hidden, gate, dy;
  View dx, dresidual, dw1, db1, dw2, db2, scratch;
  bool accumulate_dx = false, accumulate_dresidual = false;
  bool accumulate_dw1 = false, accumulate_db1 = false, accumulate_dw2 = false, accumulate_db2 = false;
};
inline Kernel<SqueezeExciteBackwardArgs> squeeze_excite_backward("squeeze_excite_backward");

/// Per part: the gradients of w1, b1, w2 and b2 in this order, then dz of one sample, then three channel
/// vectors and one of R.
constexpr std::int64_t squeeze_excite_scratch(std::int64_t s, std::int64_t c, std::int64_t r) {
  return 2 * r * c + r + c + s * c + 3 * c + r;
}

}  // namespace ingot::kernels
