#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// Drops elements while training; the identity otherwise. No parameters. Numbers come from the thread's
/// generator (ops/random.h), so a RandomScope around the forward pass makes them repeatable.
struct Dropout {
  /// Throws InvalidConfig unless p, the probability to drop, is in [0, 1).
  explicit Dropout(double p);
  Tensor operator()(const Tensor& x) const;

  double p;
  bool training = true;
};

}  // namespace ingot
