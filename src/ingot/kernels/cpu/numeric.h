#pragma once

#include <type_traits>

#include "ingot/core/dtype.h"

namespace ingot::kernels::cpu {

/// The type that arithmetic on T happens in: double for double, float for the rest.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
Accumulator<T> load(const T* p) {
  return static_cast<Accumulator<T>>(*p);
}

/// Writes `value`, or adds it to what is there.
template <class T>
void store(T* p, Accumulator<T> value, bool accumulate = false) {
  *p = static_cast<T>(accumulate ? load(p) + value : value);
}

}  // namespace ingot::kernels::cpu
