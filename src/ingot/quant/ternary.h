#pragma once

#include "ingot/core/tensor.h"

namespace ingot::quant {

/// What the `ternary` format multiplies -1, 0 and 1 with: the mean magnitude of all values, rounded to f16
/// (BitNet b1.58, Ma et al. 2024). values: contiguous f32, on any device; returns f32 [1] there.
Tensor ternary_scale(const Tensor& values);

}  // namespace ingot::quant
