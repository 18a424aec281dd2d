#pragma once

#include <string_view>

#include "ingot/core/tensor.h"

namespace ingot::quant {

/// A weight as contiguous f32 (itself where it is that already). Takes f32, bf16 and f16 on the CPU of rank
/// 2; DimensionMismatch and KernelError name the weight otherwise.
Tensor as_floats(const Tensor& w, std::string_view name);

}  // namespace ingot::quant
