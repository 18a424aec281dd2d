#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// The words of device code that CUDA C++ has and a host's compiler has not. What lies in this folder is
// NVIDIA's alone: an emulated device (tests/emulated_gpu) brings headers of the same names.

#define INGOT_UNROLL _Pragma("unroll")
#define INGOT_ROLLED _Pragma("unroll 1")
#define INGOT_UNROLL_BY_4 _Pragma("unroll 4")
#define INGOT_SHARED_ARRAY(T, name, count) __shared__ T name[count]
#define INGOT_DYNAMIC_SHARED(T, name)                                   \
  extern __shared__ __align__(16) unsigned char ingot_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(ingot_dynamic_shared)

namespace ingot::kernels::cuda {

using half_t = __half;
using bfloat_t = __nv_bfloat16;

__device__ __forceinline__ float to_float(half_t x) { return __half2float(x); }
__device__ __forceinline__ float to_float(bfloat_t x) { return __bfloat162float(x); }
template <class T>
__device__ __forceinline__ T from_float(float x) {
  return T(x);
}
template <>
__device__ __forceinline__ half_t from_float<half_t>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ bfloat_t from_float<bfloat_t>(float x) {
  return __float2bfloat16_rn(x);
}

/// An access of `bytes` bytes must lie on a multiple of them; the device itself complains.
__device__ __forceinline__ void check_aligned(const void* /*address*/, std::size_t /*bytes*/,
                                              const char* /*what*/) {}

}  // namespace ingot::kernels::cuda
