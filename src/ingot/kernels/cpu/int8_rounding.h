#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ingot/kernels/quantized.h"

namespace ingot::kernels::cpu {

/// The scale of numbers that are rounded to integers from −most to most, by the rules of
/// quantize_activations.
struct CodeScale {
  float scale, inverse = 0;  // of 0 where all codes are

  /// `top`: their largest magnitude, or NaN if there is one among them.
  CodeScale(float top, int most) {
    const auto largest = static_cast<float>(most);
    scale = !std::isfinite(top) ? NAN : top < kLeastTop ? 0 : top / largest;
    if (std::isfinite(top) && top >= kLeastTop) inverse = largest / top;
  }
};

/// How numbers with one scale are rounded.
template <class Code, int kMost>
struct CodeRounding : CodeScale {
  explicit CodeRounding(float top) : CodeScale(top, kMost) {}
  CodeRounding(const float* x, std::int64_t n) : CodeRounding(top_of(x, n)) {}

  Code code(float x) const {
    if (inverse == 0) return 0;
    constexpr auto kBound = static_cast<float>(kMost);
    return static_cast<Code>(std::clamp(std::nearbyint(x * inverse), -kBound, kBound));
  }

 private:
  static float top_of(const float* x, std::int64_t n) {
    float top = 0;
    for (std::int64_t i = 0; i < n; ++i)
      top = std::abs(x[i]) > top || std::isnan(x[i]) ? std::abs(x[i]) : top;
    return top;
  }
};

using Int8Rounding = CodeRounding<std::int8_t, 127>;
using SpanRounding = CodeRounding<std::int16_t, kMostSpanCode>;

}  // namespace ingot::kernels::cpu
