#pragma once

#include "ingot/kernels/gemm.h"
#include "ingot/kernels/kernel.h"
#include "ingot/kernels/packed.h"

namespace ingot::kernels {

/// kMostSpanCode / x is finite from here on: numbers of smaller magnitudes are rounded to 0.
inline constexpr float kLeastTop = 0x1p-110F;

/// The largest code of a span: of the activations, in which some columns are tens of times as large as the
/// others, and of the weight. A span's dot product then still fits 32 bits.
inline constexpr int kMostSpanCode = 4095, kMostSpanWeight = 2047;
/// The largest code of a weight's span where x keeps its int8 blocks: all of a byte for AVX-512 VNNI, and
/// what leaves the sums of two or of four products with codes of x in 16 bits, in which AVX2 makes them.
inline constexpr int kMostByteWeight = 127, kMostPairWeight = 64, kMostQuadWeight = 32;
static_assert(kPackedSpan * kMostSpanCode * kMostSpanWeight < std::int64_t{1} << 31);

/// kPackedSpan columns of one row of x, rounded: x ≈ scale · codes. An odd number of cache lines, so that
/// rows behind each other fall into different sets of L1.
struct alignas(64) ActivationSpan {
  float scale;  ///< largest magnitude / kMostSpanCode
  std::array<std::int32_t, 15> unused;
  std::array<std::int16_t, kPackedSpan> codes;  ///< −kMostSpanCode ... kMostSpanCode
};
static_assert(sizeof(ActivationSpan) == 576);

/// Rounds rows of x to int8 in blocks of 32 columns, each with its own scale: codes = round_to_even(x · 127 /
/// top), scale = top / 127 with the largest magnitude top. A top below kLeastTop counts as 0; NaN and
/// infinities give a scale of NaN and codes of 0, so that they show in the result. x: f32 [m, k], rows
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
/// of 32 columns (16 for half blocks), y = fma(float(dot), weight scale · x scale, y) with the exact
/// whole-numbered dot of codes less zero, and, where there is a minimum, y = fma(minimum, x scaled_sum, y)
/// after that; the bias is added last. The weight scale is d · scale, the minimum −(dmin · min), both rounded
/// to f32.
///
/// For many rows x may be u8 [m, spans, 576] from quantize_spans instead: one scale for 256 columns. The
/// weight's values in the span are then rounded once more, to int16 codes with one scale, so that nothing but
/// dot products is left between two spans. For a row of the weight, with most = kMostSpanWeight: top = the
/// largest magnitude of its values in the span, fma(code less zero, weight scale, minimum); unit = weight
/// scale · (most / top), code = round_to_even(fma(code less zero, unit, minimum · (most / top))), and by
/// spans y = fma(float(dot), top / most · x scale, y), where y starts as the bias or 0. A top below kLeastTop
/// counts as 0.
///
/// With weight_code, for many rows too, x is blocks, and the weight alone is rounded once more by these
/// rules, to int8 codes: most = weight_code. By blocks of a span, s = fma(float(dot), x scale, s) from s = 0,
/// and by spans y = fma(s, top / most, y).
struct QuantizedMatmulArgs {
  PackedFormat format;
  View x, weight, y, bias;
  int weight_code = 0;  ///< of kMostByteWeight, kMostPairWeight and kMostQuadWeight; 0: not rounded once more
};
inline Kernel<QuantizedMatmulArgs> quantized_matmul("quantized_matmul");
/// Of whole blocks or spans: columns that fill the last one up count.
inline double flops(const QuantizedMatmulArgs& args) {
  const std::int64_t cols = args.x.rank == 3 ? args.x.dim(1) * kPackedSpan : args.x.dim(1) / 2;
  return 2 * static_cast<double>(args.y.numel()) * static_cast<double>(cols);
}

/// Rounds rows of x to int8, each with one scale, by the rules of quantize_activations. x: f32 [m, k], rows
/// contiguous. y: u8 [m, 64 + codes], an ActivationRow and its codes; codes >= k, a multiple of 64, those
/// beyond k are 0.
struct QuantizeRowsArgs {
  View x, y;
};
inline Kernel<QuantizeRowsArgs> quantize_rows("quantize_rows");

/// Rounds rows of x to int16 codes up to kMostSpanCode, with one scale for 256 columns, by the rules of
/// quantize_activations otherwise. x: f32 [m, k], rows contiguous. y: u8 [m, spans, 576], ActivationSpans, of
/// which the last dimension is contiguous; spans · 256 >= k, the rest is 0.
struct QuantizeSpansArgs {
  View x, y;
};
inline Kernel<QuantizeSpansArgs> quantize_spans("quantize_spans");  // CPU only: a GPU has bf16 for many rows

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

/// Values of whole rows of a packed weight: y f32 or bf16 [ids, cols] (rows contiguous), ids i64 [ids],
/// inside; without ids y has all rows, [rows, cols]. On a GPU an id outside gives a row of NaN.
struct DequantizeRowsArgs {
  PackedFormat format;
  View weight, ids, y;
};
inline Kernel<DequantizeRowsArgs> dequantize_rows("dequantize_rows");

/// c = a·weightᵀ + beta·c + bias, or a·weight where `transposed` is false, with the weight's values rounded
/// to bf16: the bits of gemm behind dequantize_rows. The values are made in pieces that stay in cache, and no
/// memory holds all of them. For CPUs whose gemm widens bf16 to f32 anyway, and for many rows: ask runs()
/// (runs.h) first. a [m, k], c [m, n] and bias, [n] or absent: bf16, rows contiguous; beta: 0 or 1.
struct DequantizedGemmArgs {
  PackedFormat format;
  View a, weight, c;  ///< weight: u8 [panels, panel_bytes] of [n, k], or of [k, n]
  View bias{};
  bool transposed = true;
  float beta = 0.0F;

  /// As one of dense operands; b has no data.
  GemmArgs gemm() const {
    View b = c;
    b.data = nullptr;
    b.shape = {a.dim(1), c.dim(1)};
    b.strides = {1, a.dim(1)};
    if (!transposed) b.strides = {c.dim(1), 1};
    return {.a = a, .b = b, .c = c, .bias = bias, .beta = beta};
  }
};
inline Kernel<DequantizedGemmArgs> dequantized_gemm("dequantized_gemm");  // CPU only: GPUs do not widen bf16
inline double flops(const DequantizedGemmArgs& args) {
  return 2 * static_cast<double>(args.c.numel()) * static_cast<double>(args.a.dim(1));
}

}  // namespace ingot::kernels
