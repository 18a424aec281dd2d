#pragma once

#include <cstdint>

#include "ingot/core/view.h"

namespace ingot::kernels::cpu {

/// to[i] = Σ_part partials[part · stride + i], or adds that to `to`, in the order of the parts: how threads
/// that summed apart come together with the same bits whoever was first. `to`: contiguous, f32, or absent.
inline void add_parts(const View& to, const float* partials, std::int64_t parts, std::int64_t stride,
                      bool accumulate) {
  if (!to) return;
  const std::int64_t n = to.numel();
  float* sums = to.as<float>();
  for (std::int64_t i = 0; i < n; ++i) {
    float sum = accumulate ? sums[i] : 0.0F;
    for (std::int64_t part = 0; part < parts; ++part) sum += partials[part * stride + i];
    sums[i] = sum;
  }
}

}  // namespace ingot::kernels::cpu
