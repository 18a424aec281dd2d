#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ingot/core/dtype.h"

// What the .cu files of this backend are written in: CUDA C++, but for shared memory, which is declared with
// INGOT_SHARED_ARRAY(type, name, count) and INGOT_DYNAMIC_SHARED(type, name), and `#pragma unroll`, which is
// INGOT_UNROLL (`#pragma unroll 1` is INGOT_ROLLED). So the host's compiler can read them too, and runs them
// in the emulator.
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define INGOT_UNROLL _Pragma("unroll")
#define INGOT_ROLLED _Pragma("unroll 1")
#define INGOT_SHARED_ARRAY(T, name, count) __shared__ T name[count]
#define INGOT_DYNAMIC_SHARED(T, name)                                   \
  extern __shared__ __align__(16) unsigned char ingot_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(ingot_dynamic_shared)

namespace ingot::kernels::cuda {
using half_t = __half;
using bfloat_t = __nv_bfloat16;
}  // namespace ingot::kernels::cuda
#else
#include "ingot/kernels/cuda/emulation/device_code.h"
#endif

namespace ingot::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(std::int8_t x) { return static_cast<float>(x); }
template <class T>
__device__ __forceinline__ T from_float(float x) {
  return T(x);
}
#if defined(__CUDACC__)
__device__ __forceinline__ float to_float(half_t x) { return __half2float(x); }
__device__ __forceinline__ float to_float(bfloat_t x) { return __bfloat162float(x); }
template <>
__device__ __forceinline__ half_t from_float<half_t>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ bfloat_t from_float<bfloat_t>(float x) {
  return __float2bfloat16_rn(x);
}
#else
inline float to_float(half_t x) { return static_cast<float>(x); }
inline float to_float(bfloat_t x) { return static_cast<float>(x); }
#endif

/// The bits of `from` as a To; CUDA's 16-bit types are not for std::bit_cast.
template <class To, class From>
__device__ __forceinline__ To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(static_cast<void*>(&to), &from, sizeof(To));
  return to;
}

/// `count` neighbours, read and written in one access; the address must be a multiple of the size.
template <class T, int count>
struct alignas(sizeof(T) * count) Vector {
  T values[count];
};
/// How many T an access of 16 bytes holds.
template <class T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));

template <int count, class T>
__device__ __forceinline__ Vector<T, count> load_vector(const T* from) {
#if !defined(__CUDACC__)
  if (reinterpret_cast<std::uintptr_t>(from) % sizeof(Vector<T, count>) != 0)
    emulation::fail("a misaligned read");
#endif
  return *reinterpret_cast<const Vector<T, count>*>(from);
}
template <int count, class T>
__device__ __forceinline__ void store_vector(T* to, const Vector<T, count>& vector) {
#if !defined(__CUDACC__)
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(Vector<T, count>) != 0)
    emulation::fail("a misaligned write");
#endif
  *reinterpret_cast<Vector<T, count>*>(to) = vector;
}

/// Writes `value`, or adds it to what is there.
template <class T>
__device__ __forceinline__ void store(T* to, float value, bool accumulate) {
  *to = from_float<T>(accumulate ? to_float(*to) + value : value);
}

/// Calls f.template operator()<T>() with the device's type of f32, f16 or bf16. The kernel's accepts() has
/// let no other pass.
template <class F>
void dispatch_device_float(DType dtype, const char* kernel, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f16:
      return f.template operator()<half_t>();
    case DType::bf16:
      return f.template operator()<bfloat_t>();
    default:
      throw_unsupported_dtype(dtype, kernel, "f32, f16, bf16");
  }
}
constexpr bool is_device_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

}  // namespace ingot::kernels::cuda
