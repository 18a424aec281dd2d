#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// What stands around the steps of a causal convolution; both may be undefined, and have no gradient.
struct CausalConvSurroundings {
  /// [B, K − 1, C]: the steps before the first, as a cache keeps them. Undefined: zeros.
  Tensor past{};
  /// i32 [B, T]: the first step of each step's document; what is before it counts as zeros.
  Tensor starts{};
};

/// Depthwise causal convolution: y[b, t, c] = bias[c] + Σ_k weight[c, k] · x[b, t − K + 1 + k, c], as Mamba
/// (Gu and Dao 2023, 3.4) and LFM2 have it. x: [B, T, C]; weight: [C, K]; bias: [C] or undefined. Throws
/// ShapeMismatch or DimensionMismatch naming what does not fit, and Error where a gradient would have to flow
/// through a past.
Tensor causal_conv(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                   const CausalConvSurroundings& around = {});

}  // namespace ingot
