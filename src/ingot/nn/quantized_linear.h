#pragma once

#include "ingot/quant/packed_matrix.h"

namespace ingot {

/// x·Wᵀ + bias with the values of a quantized W, and nothing else rounded: for training. x: f32 or bf16 [...,
/// in], on W's device; bias: [out] or undefined. The input gradient multiplies with the same values, which
/// are dequantized again for it; W has no gradient. Throws ShapeMismatch.
Tensor quantized_linear(const Tensor& x, const quant::PackedPtr& weight, const Tensor& bias = {});

}  // namespace ingot
