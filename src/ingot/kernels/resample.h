#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// y[o, i, k] = Σ_t weights[t, i] · x[o, indices[t, i], k]: each position of the middle axis is a weighted
/// sum of a few positions of x, as in linear and cubic interpolation. x: [outer, m, inner], y: [outer, n,
/// inner], contiguous, one floating dtype; indices: [taps, n], i32, in [0, m); weights: [taps, n], f64 where
/// x is, else f32.
struct ResampleArgs {
  View x, indices, weights, y;
  bool accumulate = false;
};
inline Kernel<ResampleArgs> resample("resample");

}  // namespace ingot::kernels
