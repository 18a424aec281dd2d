#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ingot/kernels/quantized.h"

namespace ingot::kernels::cpu {

/// How numbers with one scale are rounded to int8, by the rules of quantize_activations.
struct Int8Rounding {
  float scale, inverse = 0;  // of 0 where all codes are

  /// `top`: their largest magnitude, or NaN if there is one among them.
  explicit Int8Rounding(float top) {
    scale = !std::isfinite(top) ? NAN : top < kLeastTop ? 0 : top / 127;
    if (std::isfinite(top) && top >= kLeastTop) inverse = 127 / top;
  }
  Int8Rounding(const float* x, std::int64_t n) : Int8Rounding(top_of(x, n)) {}

  std::int8_t code(float x) const {
    if (inverse == 0) return 0;
    return static_cast<std::int8_t>(std::clamp(std::nearbyint(x * inverse), -127.0F, 127.0F));
  }

 private:
  static float top_of(const float* x, std::int64_t n) {
    float top = 0;
    for (std::int64_t i = 0; i < n; ++i)
      top = std::abs(x[i]) > top || std::isnan(x[i]) ? std::abs(x[i]) : top;
    return top;
  }
};

}  // namespace ingot::kernels::cpu
