#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

// Whole numbers of 8 bits that stand for (q − zero)·scale, as ONNX' QuantizeLinear has them: one scale for
// all, or one for each position of an axis. x, q: [outer, channels, inner], contiguous; x floating, q u8 or
// i8; scale: [channels], f32; zero: [channels], q's dtype, or absent (0).

/// q = round(x / scale) + zero, limited to what q's dtype holds. Half to even; x / scale is f32. A NaN
/// becomes any number.
struct AffineQuantizeArgs {
  View x, scale, zero, q;
};
inline Kernel<AffineQuantizeArgs> affine_quantize("affine_quantize");

/// x = (q − zero)·scale.
struct AffineDequantizeArgs {
  View q, scale, zero, x;
};
inline Kernel<AffineDequantizeArgs> affine_dequantize("affine_dequantize");

/// Codes of which all have one scale and one zero point.
struct AffineCodes {
  View codes;  ///< u8 or i8
  float scale = 1;
  std::int32_t zero = 0;
};
/// y = a + b by what they stand for: each is dequantized, the sum quantized, in f32 as by the kernels above.
/// All of one shape, contiguous.
struct AffineAddArgs {
  AffineCodes a, b, y;
};
inline Kernel<AffineAddArgs> affine_add("affine_add");  // CPU only: GPUs add values

/// The limits of a code.
struct CodeRange {
  float low, high;
  explicit constexpr CodeRange(DType codes)
      : low(codes == DType::i8 ? -128.0F : 0.0F), high(codes == DType::i8 ? 127.0F : 255.0F) {}
};

}  // namespace ingot::kernels
