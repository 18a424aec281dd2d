#pragma once

#include <cstdint>

#include "ingot/core/view.h"
#include "ingot/kernels/cpu/simd/convert.h"

namespace ingot::kernels::cpu {

/// to[i] = Σ_part partials[part · stride + i], or adds that to `to`, in the order of the parts: how threads
/// that summed apart come together with the same bits whoever was first. `to`: contiguous, f32 or a half type
/// (rounded once), or absent.
inline void add_partials(const View& to, const float* partials, std::int64_t parts, std::int64_t stride,
                         bool accumulate) {
  if (!to) return;
  dispatch_simd_float(to.dtype, [&]<class T>() {
    for (std::int64_t i = 0; i < to.numel(); ++i) {
      T& total = to.as<T>()[i];
      float sum = accumulate ? static_cast<float>(total) : 0.0F;
      for (std::int64_t part = 0; part < parts; ++part) sum += partials[part * stride + i];
      total = static_cast<T>(sum);
    }
  });
}

}  // namespace ingot::kernels::cpu
