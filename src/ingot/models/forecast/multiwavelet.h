#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// Filters of Legendre multiwavelets (Alpert 1993; Gupta et al. 2021, "Multiwavelet-based operator
/// learning"). On [0, 1], `order` Legendre polynomials span the sums of a level, and as many piecewise
/// polynomials orthogonal to these, the wavelets, what a level of half the step width has more: its details.
struct MultiwaveletFilters {
  /// [2·order, 2·order]: two neighbouring sums (a row vector, even step first) times this are the details and
  /// then the sums of the level above.
  Tensor analysis;
  /// [2·order, 2·order]: sums and then details times this are the even step and then the odd one below.
  Tensor synthesis;
};

/// order: from 1 to 16. InvalidConfig for another.
MultiwaveletFilters legendre_multiwavelets(std::int64_t order);

}  // namespace ingot
