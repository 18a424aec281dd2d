#pragma once

#include <cuda_fp8.h>

#include "ingot/kernels/cuda/device/device_code.h"

// Registers that hold two values of 16 bits, the first in the low half.
namespace ingot::kernels::cuda {

/// Two values in a register, the first in its low half.
template <class T>
__device__ __forceinline__ unsigned pair_of(float first, float second) {
  if constexpr (std::is_same_v<T, bfloat_t>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return reinterpret_cast<const unsigned&>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(first, second);
    return reinterpret_cast<const unsigned&>(pair);
  }
}

/// The value of that half of a register, 0 or 1.
__device__ __forceinline__ float half_of(unsigned pair, int half) {
  const auto halves = bits_as<__half2>(pair);
  return half == 0 ? __low2float(halves) : __high2float(halves);
}
/// The greatest value of type T in `count` registers.
template <class T, int count>
__device__ __forceinline__ float greatest_of(const unsigned (&pairs)[count]) {
  using Two = std::conditional_t<std::is_same_v<T, bfloat_t>, __nv_bfloat162, __half2>;
  Two top = bits_as<Two>(pairs[0]);
  INGOT_UNROLL
  for (int i = 1; i < count; ++i) top = __hmax2(top, bits_as<Two>(pairs[i]));
  return fmaxf(to_float(top.x), to_float(top.y));
}
/// Keeps the compiler from keeping what it has made of a register in others.
__device__ __forceinline__ void keep_register(unsigned& pair) { asm volatile("" : "+r"(pair)); }

/// The values of the E4M3 codes in bytes 0 and 2. GPUs from 8.9 on have an instruction for it.
__device__ __forceinline__ Vector<float, 2> e4m3_pair(unsigned codes) {
  const auto pair = static_cast<__nv_fp8x2_storage_t>(__byte_perm(codes, 0, 0x4420));
  const float2 values = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3)));
  return {{values.x, values.y}};
}

}  // namespace ingot::kernels::cuda
