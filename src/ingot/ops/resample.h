#pragma once

#include <cstdint>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

/// How the places of an axis become others: place i is Σ_t weights[t·places + i] times place
/// indices[t·places + i] of the argument. Interpolation at fixed points, and any filter of a few taps, is
/// one.
struct Resampling {
  std::int64_t places = 0, taps = 0;
  std::vector<std::int32_t> indices;  ///< [taps, places]
  std::vector<double> weights;        ///< [taps, places]
};

/// x [..., m, ...] to [..., places, ...] on `axis`. Throws DimensionMismatch for an axis that is not there,
/// an index outside of it, and tables that are not taps x places.
Tensor resample(const Tensor& x, int axis, const Resampling& how);

}  // namespace ingot
