#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// The discrete Fourier transform of the real lines along the middle axis of x: [outer, n, inner], at its
/// first `bins` frequencies, at most n / 2 + 1. y: [2, outer, bins, inner] has the real parts and then the
/// imaginary ones of  y_k = w_k · Σ_t x_t · e^(−2πi·kt/n),  where w_k is `edge` for k = 0 and k = n / 2 (n
/// even) and `interior` for the others. Contiguous, one floating dtype, any n.
struct RealFftArgs {
  View x, y;
  double edge = 1, interior = 1;
  bool accumulate = false;
};
inline Kernel<RealFftArgs> real_fft("real_fft");

/// y_t = Re Σ_k w_k · x_k · e^(2πi·kt/n) over the bins of x: [2, outer, bins, inner]; y: [outer, n, inner].
/// The imaginary parts at k = 0 and k = n / 2 do not count. With weights 1 it is the transpose of real_fft;
/// with edge 1/n and interior 2/n, and bins that are not there taken as 0, its inverse.
struct InverseRealFftArgs {
  View x, y;
  double edge = 1, interior = 1;
  bool accumulate = false;
};
inline Kernel<InverseRealFftArgs> inverse_real_fft("inverse_real_fft");

}  // namespace ingot::kernels
