#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// The mean of the `window` values around each position of an axis, where the first and the last value are
/// repeated beyond the ends: window / 2 positions before, the rest after (series decomposition, Wu et al.
/// 2021). Throws DimensionMismatch for an axis that is not there, InvalidConfig for a window below 1.
Tensor moving_average(const Tensor& x, std::int64_t window, int axis = -1);

/// moving_average as a matrix M, transposed: Mᵀ·x along an axis. It folds the average into the weights that
/// come after it: w·(M·x) = (Mᵀ·w)·x.
Tensor moving_average_transposed(const Tensor& x, std::int64_t window, int axis = -1);

}  // namespace ingot
