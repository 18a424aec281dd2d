#pragma once

#include "ingot/kernels/cuda/device/device_code.h"

namespace ingot::kernels::cuda {

template <class Loaded, class T>
Loaded load_once(const T* from) {
  static_assert(sizeof(Loaded) == 16);
  return bits_as<Loaded>(load_vector<kVector<T>>(from));
}

template <int count, class T>
void store_global(T* to, const Vector<T, count>& vector) {
  store_vector(to, vector);
}

}  // namespace ingot::kernels::cuda
