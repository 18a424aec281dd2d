#pragma once

#include <cmath>

namespace ingot::kernels::cpu {

/// x · tanh(ln(1 + e^x)) (Misra 2019).
template <class T>
T mish(T x) {
  return x * std::tanh(x > 20 ? x : std::log1p(std::exp(x)));
}

template <class T>
T mish_derivative(T x) {
  const T t = std::tanh(x > 20 ? x : std::log1p(std::exp(x)));
  return t + x * (1 - t * t) / (1 + std::exp(-x));
}

}  // namespace ingot::kernels::cpu
