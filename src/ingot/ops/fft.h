#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

// Fourier transforms of real series of any length. Spectra are complex tensors (ops/complex.h): [2, ...].
// Signs and factors are NumPy's.

/// z_k = Σ_t x_t · e^(−2πi·kt/n) along an axis of n values, for the frequencies k = 0, 1, ... n / 2, or the
/// first `bins` of these: [...] -> [2, ...] with `bins` instead of n. Throws DimensionMismatch for an axis
/// that is not there or empty, and for more bins than there are.
Tensor rfft(const Tensor& x, int axis = -1, std::int64_t bins = 0);

/// The real series of n values that has the spectrum z; frequencies that z does not hold are 0. z: [2, ...]
/// ->
/// [...] with n instead of the bins; `axis` counts the result's axes. The imaginary parts at frequency 0
/// and, for even n, n / 2 do not count. Throws DimensionMismatch as rfft does.
Tensor irfft(const Tensor& z, std::int64_t n, int axis = -1);

}  // namespace ingot
