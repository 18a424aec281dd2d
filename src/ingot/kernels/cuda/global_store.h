#pragma once

#include <cstring>

#include "ingot/kernels/cuda/device_code.h"

namespace ingot::kernels::cuda {

/// store_vector for memory of the device, certainly in one access: where nothing was read from the address
/// before, nvcc may write a struct member by member.
template <int count, class T>
__device__ __forceinline__ void store_global(T* to, const Vector<T, count>& vector) {
#if defined(__CUDACC__)
  if constexpr (sizeof(vector) == 16) {
    uint4 words;
    memcpy(&words, &vector, sizeof(words));
    __stwb(reinterpret_cast<uint4*>(to), words);
    return;
  } else if constexpr (sizeof(vector) == 8) {
    uint2 words;
    memcpy(&words, &vector, sizeof(words));
    __stwb(reinterpret_cast<uint2*>(to), words);
    return;
  }
#endif
  store_vector(to, vector);
}

}  // namespace ingot::kernels::cuda
