#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// Whole numbers of 8 bits that stand for (q − zero)·scale, as ONNX' QuantizeLinear and DequantizeLinear have
/// them. scale: f32 [channels], one for each position of `axis`, or [1] for all; zero: the same shape, u8 or
/// i8, or undefined for 0. Throws DimensionMismatch, ShapeMismatch or KernelError (a dtype). No gradients.
Tensor affine_quantize(const Tensor& x, const Tensor& scale, const Tensor& zero, DType codes, int axis = 0);
Tensor affine_dequantize(const Tensor& q, const Tensor& scale, const Tensor& zero, DType dtype, int axis = 0);

/// One scale and one zero point for all codes, u8 or i8.
struct AffineScale {
  float scale = 1;
  std::int32_t zero = 0;
};
/// The codes, of this dtype, of what a and b stand for, added: affine_quantize of the sum of both
/// affine_dequantize, in one pass. a, b: u8 or i8 of one shape, on the CPU. Throws ShapeMismatch or
/// KernelError (a dtype). No gradients.
Tensor affine_add(const Tensor& a, AffineScale a_scale, const Tensor& b, AffineScale b_scale,
                  AffineScale scale, DType codes);

}  // namespace ingot
