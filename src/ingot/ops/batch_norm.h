#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

struct BatchNormOptions {
  bool training = true;
  double momentum = 0.1;  ///< weight of this batch in the running statistics
  float eps = 1e-5F;
  /// Throws InvalidConfig naming the option.
  void validate() const;
};

/// Batch normalization (Ioffe and Szegedy 2015), PyTorch's meaning: every channel of x [N, C, ...] is brought
/// to mean 0 and variance 1 over the batch and the other axes, then scaled by weight [C] and shifted by bias
/// [C] (either may be undefined). Training uses the batch's own statistics (biased variance) and moves
/// running_mean and running_var [C], where defined, in place towards them (unbiased variance); otherwise the
/// running ones are used. Throws ShapeMismatch, and DimensionMismatch when a channel has a single value to
/// train on.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormOptions& options = {});

}  // namespace ingot
