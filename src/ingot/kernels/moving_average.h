#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// y = M·x along the middle axis of x: [outer, length, inner], M the mean over `window` positions around each
/// one (window / 2 before it), where the first and the last value are repeated beyond the ends. With
/// `transposed`, y = Mᵀ·x, which is also M's gradient. x, y: contiguous, one floating dtype; sums in f64.
struct MovingAverageArgs {
  View x, y;
  std::int64_t window = 1;
  bool transposed = false;
  bool accumulate = false;
};
inline Kernel<MovingAverageArgs> moving_average("moving_average");

}  // namespace ingot::kernels
