#pragma once

#include <cstring>

#include "ingot/kernels/cuda/device/device_code.h"

namespace ingot::kernels::cuda {

/// 16 bytes of the device's memory that nobody writes while the kernel runs and no other block nearby reads:
/// they leave the first level cache to the rest. The address must be a multiple of 16. Where nvcc cannot tell
/// whose memory an address is, as one that was read from memory, this says it too.
template <class Loaded, class T>
__device__ __forceinline__ Loaded load_once(const T* from) {
  static_assert(sizeof(Loaded) == 16);
  uint4 words;
  asm("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
      : "l"(from));
  return bits_as<Loaded>(words);
}

/// store_vector for memory of the device, certainly in one access: where nothing was read from the address
/// before, nvcc may write a struct member by member.
template <int count, class T>
__device__ __forceinline__ void store_global(T* to, const Vector<T, count>& vector) {
  if constexpr (sizeof(vector) == 16) {
    uint4 words;
    memcpy(&words, &vector, sizeof(words));
    __stwb(reinterpret_cast<uint4*>(to), words);
  } else if constexpr (sizeof(vector) == 8) {
    uint2 words;
    memcpy(&words, &vector, sizeof(words));
    __stwb(reinterpret_cast<uint2*>(to), words);
  } else {
    store_vector(to, vector);
  }
}

}  // namespace ingot::kernels::cuda
