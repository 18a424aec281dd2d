#pragma once

#include "ingot/kernels/kernel.h"
#include "ingot/kernels/packed.h"

namespace ingot::kernels {

/// y = x · weightᵀ + bias for formats whose codes stand for numbers that are not evenly spaced, so that int8
/// dot products cannot take them: the weight is widened to f32 on its way through the registers, or is f32.
/// format: one for which is_weight_only() holds; x: f32 [m, k], rows contiguous; weight: u8
/// [panels, panel_bytes], 64-byte aligned, of k columns; y: f32 [m, n], n <= panels · 16, rows contiguous;
/// bias: f32 [n] or absent.
///
/// Every implementation sums in one order, so that all give the same bits for any m: y starts as 0; by groups
/// of columns that share a scale (64, of nvfp4 16), two sums s = fma(x, value, s), of the even and of the odd
/// columns in their order, and then y = fma(even + odd, scale, y); the bias is added last. Of f32: y = fma(x,
/// value, y), column after column.
struct WeightOnlyMatmulArgs {
  PackedFormat format;
  View x, weight, y, bias;
};
inline Kernel<WeightOnlyMatmulArgs> weight_only_matmul("weight_only_matmul");
inline double flops(const WeightOnlyMatmulArgs& args) {
  return 2 * static_cast<double>(args.y.numel()) * static_cast<double>(args.x.dim(-1));
}

}  // namespace ingot::kernels
