#pragma once

#include "ingot/kernels/kernel.h"
#include "ingot/kernels/packed.h"

namespace ingot::kernels {

/// 127 / x is finite from here on: numbers of smaller magnitudes are rounded to int8 as 0.
inline constexpr float kLeastTop = 0x1p-110F;

/// Rounds rows of x to int8 in blocks of 32 columns, each with its own scale: codes = round_to_even(x · 127 /
/// top), scale = top / 127 with the largest magnitude top. A top below kLeastTop counts as 0; NaN and
/// infinities give a scale of NaN and codes of 0, so that they show in the product. x: f32 [m, k], rows
/// contiguous. y: u8 [m, blocks · 64], ActivationBlocks; blocks · 32 >= k, the rest is 0.
struct QuantizeActivationsArgs {
  View x, y;
};
inline Kernel<QuantizeActivationsArgs> quantize_activations("quantize_activations");

/// y = x · weightᵀ + bias with int8 dot products.
/// x: u8 [m, blocks · 64] from quantize_activations, at least as many blocks as a panel has; weight: u8
/// [panels, panel_bytes], n <= panels · 16, 64-byte aligned; y: f32 [m, n], rows contiguous; bias: f32 [n] or
/// absent.
///
/// Every implementation sums in one order, so that all give the same bits for any m: y starts as 0; by blocks
/// of 32 columns (16 for halves), y = fma(float(dot), weight scale · x scale, y) with the exact
/// whole-numbered dot of codes less zero, and, where there is a minimum, y = fma(minimum, x scaled_sum, y)
/// after that; the bias is added last. The weight scale is d · scale, the minimum −(dmin · min), both rounded
/// to f32.
///
/// For many rows x may be u8 [m, spans, 64 + 256] from quantize_rows instead: one scale for a span of 256
/// columns. The weight's values in the span are then rounded once more, to int8 with one scale, so that
/// nothing but dot products is left between two spans. For a row of the weight: top = the largest magnitude
/// of its values in the span, fma(code less zero, weight scale, minimum); unit = weight scale · (127 / top),
/// code = round_to_even(fma(code less zero, unit, minimum · (127 / top))), and by spans y = fma(float(dot),
/// top / 127 · x scale, y), where y starts as the bias or 0. A top below kLeastTop counts as 0.
struct QuantizedMatmulArgs {
  PackedFormat format;
  View x, weight, y, bias;
};
inline Kernel<QuantizedMatmulArgs> quantized_matmul("quantized_matmul");
/// Of whole blocks or spans: columns that fill the last one up count.
inline double flops(const QuantizedMatmulArgs& args) {
  const std::int64_t cols = args.x.rank == 3 ? args.x.dim(1) * (args.x.dim(2) - 64) : args.x.dim(1) / 2;
  return 2 * static_cast<double>(args.y.numel()) * static_cast<double>(cols);
}

/// Rounds rows of x to int8, each with one scale, by the rules of quantize_activations. x: f32 [m, k], rows
/// contiguous. y: u8 [m, 64 + codes], an ActivationRow and its codes; codes >= k, a multiple of 64, those
/// beyond k are 0. Or with one scale for each span of `codes` columns: u8 [m, spans, 64 + codes], of which
/// the last dimension is contiguous; spans · codes >= k.
struct QuantizeRowsArgs {
  View x, y;
};
inline Kernel<QuantizeRowsArgs> quantize_rows("quantize_rows");

/// y = x · weightᵀ + bias for weights of PackedFormat::w8a8. Whole numbers are summed over all columns, so
/// that no order of them matters: y = fma(float(dot), weight scale · x scale, bias), of 0 without a bias.
/// Columns: kMostRowScaledCols at most, for which no dot leaves 32 bits. x: u8 [m, 64 +
/// codes] from quantize_rows, codes = a row of the weight's; weight: u8 [panels, panel_bytes], n <= panels ·
/// 16, 64-byte aligned; y: f32 [m, n], rows contiguous; bias: f32 [n] or absent.
struct RowScaledMatmulArgs {
  View x, weight, y, bias;
};
inline Kernel<RowScaledMatmulArgs> row_scaled_matmul("row_scaled_matmul");
/// Columns that fill the last 64 up count.
inline double flops(const RowScaledMatmulArgs& args) {
  return 2 * static_cast<double>(args.y.numel()) * static_cast<double>(args.x.dim(-1) - 64);
}
inline constexpr std::int64_t kMostRowScaledCols = 65536;  // 2³¹ / (127 · 255) and more

/// Blocks of 32 columns in a panel of `weight`, those that fill up the last step counted.
inline std::int64_t packed_blocks(const PackedLayout& layout, const View& weight) {
  return weight.dim(-1) / static_cast<std::int64_t>(layout.step_bytes()) * layout.step_blocks;
}

/// Values of whole rows of a packed weight: y f32 [ids, cols] (rows contiguous), ids i64 [ids], inside;
/// without ids y has all rows, [rows, cols]. On a GPU an id outside gives a row of NaN, and y may be bf16.
struct DequantizeRowsArgs {
  PackedFormat format;
  View weight, ids, y;
};
inline Kernel<DequantizeRowsArgs> dequantize_rows("dequantize_rows");

}  // namespace ingot::kernels
