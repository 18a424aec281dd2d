#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

// Complex tensors are two planes: [2, n], the real parts and then the imaginary ones. Contiguous, one
// floating dtype.

/// y = a·b, or a·conj(b), element by element.
struct ComplexMultiplyArgs {
  View a, b, y;
  bool conjugate_b = false;
  bool accumulate = false;
};
inline Kernel<ComplexMultiplyArgs> complex_multiply("complex_multiply");

/// y = |x|; y: [n].
struct ComplexAbsArgs {
  View x, y;
};
inline Kernel<ComplexAbsArgs> complex_abs("complex_abs");

/// dx = dy · x / |x|, 0 where x is 0; y is |x|.
struct ComplexAbsBackwardArgs {
  View x, y, dy, dx;
  bool accumulate = false;
};
inline Kernel<ComplexAbsBackwardArgs> complex_abs_backward("complex_abs_backward");

/// y = tanh(x).
struct ComplexTanhArgs {
  View x, y;
};
inline Kernel<ComplexTanhArgs> complex_tanh("complex_tanh");

/// dx = dy · conj(1 − y²); y is tanh(x).
struct ComplexTanhBackwardArgs {
  View y, dy, dx;
  bool accumulate = false;
};
inline Kernel<ComplexTanhBackwardArgs> complex_tanh_backward("complex_tanh_backward");

}  // namespace ingot::kernels
