#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

// A complex tensor has its two parts along a first axis of its own, [2, ...]: select(z, 0, 0) is the real
// part and select(z, 0, 1) the imaginary one, both as views that every other operation takes. The gradient of
// a complex tensor holds the derivatives by its parts. DimensionMismatch where the first axis is not 2.

/// a·b of complex tensors of one shape; with `conjugate_b`, a·conj(b), the cross-spectrum.
Tensor complex_multiply(const Tensor& a, const Tensor& b, bool conjugate_b = false);

/// Complex matmuls over the last two axes: [2, ..., m, k] times [2, ..., k, n] gives [2, ..., m, n];
/// the axes between are equal. Transposed and permuted operands are read in place. Throws ShapeMismatch.
Tensor complex_matmul(const Tensor& a, const Tensor& b);

/// |z|, the amplitude: [2, ...] -> [...]. Its gradient at 0 is 0.
Tensor complex_abs(const Tensor& z);

/// tanh(z)
Tensor complex_tanh(const Tensor& z);

/// Throws DimensionMismatch naming `op` unless z is [2, ...].
void check_complex(const char* op, const Tensor& z);

}  // namespace ingot
