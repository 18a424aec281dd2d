#pragma once

#include "ingot/kernels/cuda/device/device_code.h"

// 8-bit floats (Micikevicius et al. 2022) by whole numbers, since GPUs before 8.9 have no instruction for
// them.
namespace ingot::kernels::cuda {

/// One as it lies in memory: a sign, an exponent, `mantissa_bits`. `largest`: the code of the largest finite
/// one; infinity follows it where there is one, and numbers that are none.
template <int mantissa_bits, int bias, unsigned largest>
struct Fp8 {
  std::uint8_t bits;
};
using e4m3_t = Fp8<3, 7, 0x7e>;
using e5m2_t = Fp8<2, 15, 0x7b>;

template <int mantissa_bits, int bias, unsigned largest>
__device__ __forceinline__ float to_float(Fp8<mantissa_bits, bias, largest> x) {
  constexpr unsigned kNan = 0x7f;
  const unsigned code = x.bits & 0x7fU, sign = (x.bits & 0x80U) << 24;
  if (code > largest) {
    const bool infinite = largest + 1 < kNan && code == largest + 1;
    return bits_as<float>(sign | (infinite ? 0x7f800000U : 0x7fc00000U));
  }
  // Exponent and mantissa where f32 has them, whose exponents are larger; a subnormal one is one there, too.
  constexpr unsigned kFactor = (254U - bias) << 23;
  return bits_as<float>(sign | code << (23 - mantissa_bits)) * bits_as<float>(kFactor);
}

/// Rounded to nearest even, as the CPU does: what is beyond the largest becomes that.
template <int mantissa_bits, int bias, unsigned largest>
__device__ __forceinline__ Fp8<mantissa_bits, bias, largest> rounded_fp8(float x) {
  constexpr int kShift = 23 - mantissa_bits;
  constexpr unsigned kSmallestNormal = (128U - bias) << 23;
  const unsigned word = bits_as<unsigned>(x), sign = word >> 24 & 0x80U, magnitude = word & 0x7fffffffU;
  unsigned code = 0x7f;  // not a number
  if (magnitude < kSmallestNormal) {
    // The last place of the sum is that of a subnormal one, so it is rounded as one.
    constexpr unsigned kSum = (151U - bias - mantissa_bits) << 23;
    code = bits_as<unsigned>(bits_as<float>(magnitude) + bits_as<float>(kSum)) - kSum;
  } else if (magnitude <= 0x7f800000U) {
    const unsigned half = (1U << (kShift - 1)) - 1U + (magnitude >> kShift & 1U);
    code = ((magnitude + half) >> kShift) - ((127U - bias) << mantissa_bits);
    code = code < largest ? code : largest;
  }
  return {static_cast<std::uint8_t>(sign | code)};
}
template <>
__device__ __forceinline__ e4m3_t from_float<e4m3_t>(float x) {
  return rounded_fp8<3, 7, 0x7e>(x);
}
template <>
__device__ __forceinline__ e5m2_t from_float<e5m2_t>(float x) {
  return rounded_fp8<2, 15, 0x7b>(x);
}

}  // namespace ingot::kernels::cuda
