#pragma once

#include <cstdint>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

/// How the positions of an axis become others: position i is Σ_t weights[t·positions + i] times position
/// indices[t·positions + i] of the argument. Interpolation at fixed points, and any filter of a few taps, is
/// one.
struct Resampling {
  std::int64_t positions = 0, taps = 0;
  std::vector<std::int32_t> indices;  ///< [taps, positions]
  std::vector<double> weights;        ///< [taps, positions]
};

/// x [..., m, ...] to [..., positions, ...] on `axis`. Throws DimensionMismatch for an axis that is not
/// there, an index outside of it, and tables that are not taps x positions.
Tensor resample(const Tensor& x, int axis, const Resampling& how);

}  // namespace ingot
