#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ingot/core/dtype.h"
#include "ingot/kernels/cuda/hardware/language.h"

// What the .cu files of this backend are written in: CUDA C++, but for shared memory, which is declared with
// INGOT_SHARED_ARRAY(type, name, count) and INGOT_DYNAMIC_SHARED(type, name), and `#pragma unroll`, which is
// INGOT_UNROLL (`#pragma unroll 1` is INGOT_ROLLED). So the host's compiler can read them too, for an
// emulated device.
namespace ingot::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(std::int8_t x) { return static_cast<float>(x); }

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
  check_aligned(from, sizeof(Vector<T, count>), "a misaligned read");
  return *reinterpret_cast<const Vector<T, count>*>(from);
}
template <int count, class T>
__device__ __forceinline__ void store_vector(T* to, const Vector<T, count>& vector) {
  check_aligned(to, sizeof(vector), "a misaligned write");
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
