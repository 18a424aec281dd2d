#pragma once

#include <algorithm>
#include <limits>

#include "ingot/kernels/nvfp4.h"

namespace ingot::kernels::cpu {

inline constexpr float kMostFloat = std::numeric_limits<float>::max();

/// S of RoundNvfp4Args for a tensor's largest magnitude.
inline float scale_of_tensor(float amax) {
  const float scale = std::min(kE4m3Largest * kE2m1Largest / amax, kMostFloat);
  return amax == 0 || scale == 0 ? 1.0F : scale;
}

}  // namespace ingot::kernels::cpu
