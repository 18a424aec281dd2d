#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// A window's own mean and deviation, taken off before a network and put back after it (Kim et al. 2022,
/// "Reversible instance normalization"). No gradient flows through the statistics.
struct RevIN {
  Tensor mean;       ///< [B, channels, 1]; undefined: none is taken off
  Tensor deviation;  ///< [B, channels, 1]; undefined: the window stays as it is

  /// Of x [B, channels, lookback]: deviation = sqrt(variance of the population + 1e-5).
  static RevIN standard(const Tensor& x);
  /// transformers' "mean" scaling: no mean, and the deviation is the mean of |x|, 1e-10 at least.
  static RevIN by_magnitude(const Tensor& x);
  Tensor apply(const Tensor& x) const;
  Tensor undo(const Tensor& y) const;
};

}  // namespace ingot
