#pragma once

#include "ingot/kernels/conv.h"

namespace ingot::kernels {

/// A convolution of codes of 8 bits in whole numbers, of images in blocks of channels (blocked_conv.h):
/// y = round_to_even((Σ (x − x_zero)·weight + bias)·scale) + y_zero, limited to what y's dtype holds; sums in
/// 32 bits, exact. x: u8 or i8 [N, C / b, H, W, b]; weight: i32 [O / 2b rounded up, KH, KW, C / 2, 2b], each
/// two 16-bit numbers for neighbouring input channels, less their zero point, of one output (0 past the last
/// one); or where multiplies_code_bytes() and all fit i8 [O / 2b rounded up, KH, KW, C / 4, 8b], four of one
/// output interleaved. Its C may be less than x's by part of a block, or no multiple of two or four: what is
/// missing is 0. bias: i32 [O] or absent; scale: f32 [O]; y: u8 or i8 [N, O / b, OH, OW, b]. Padding is
/// x_zero. Contiguous; the geometry's groups and layout are not used.
struct QuantizedConvArgs {
  View x, weight, bias, scale, y;
  std::int32_t x_zero = 0, y_zero = 0;
  ConvGeometry geometry;
};
inline Kernel<QuantizedConvArgs> quantized_conv("quantized_conv");  // CPU only: GPUs convolve values
inline double flops(const QuantizedConvArgs& args) {
  const std::int64_t depth =
      (args.weight.dtype == DType::i8 ? 4 : 2) * args.weight.dim(1) * args.weight.dim(2) * args.weight.dim(3);
  return 2 * static_cast<double>(args.y.numel()) * static_cast<double>(depth);
}

/// Whether this processor adds four products of bytes at once.
bool multiplies_code_bytes();

/// Sums of so many products stay within 32 bits, whatever the codes.
inline constexpr std::int64_t kMostQuantizedDepth = 33'000;

}  // namespace ingot::kernels
