#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// Whole numbers of 8 bits that stand for (q − zero)·scale, as ONNX' QuantizeLinear and DequantizeLinear have
/// them. scale: f32 [channels], one for each place of `axis`, or [1] for all; zero: the same shape, u8 or i8,
/// or undefined for 0. Throws DimensionMismatch, ShapeMismatch or KernelError (a dtype). No gradients.
Tensor affine_quantize(const Tensor& x, const Tensor& scale, const Tensor& zero, DType codes, int axis = 0);
Tensor affine_dequantize(const Tensor& q, const Tensor& scale, const Tensor& zero, DType dtype, int axis = 0);

}  // namespace ingot
