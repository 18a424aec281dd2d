#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// Parameters of a squeeze-and-excitation gate: w1: [R, C], b1: [R], w2: [C, R], b2: [C].
struct SqueezeExciteWeights {
  const Tensor &w1, &b1, &w2, &b2;
};

/// The end of an SE residual block (Hu et al. 2018) as one op, channels-last:
/// mish(x · sigmoid(w2 · relu(w1 · mean of x over the positions + b1) + b2) + residual).
/// x, residual: [N, S, C]. Apart it would be eight ops and five passes over memory.
Tensor squeeze_excite_residual(const Tensor& x, const Tensor& residual, const SqueezeExciteWeights& weights);

/// The end of a pre-activation block with two pools, likewise: x · sigmoid(mlp(mean of x) + mlp(max of x)) +
/// residual with mlp(p) = w2 · relu(w1 · p + b1) + b2, mean and max over the positions.
Tensor dual_pool_residual(const Tensor& x, const Tensor& residual, const SqueezeExciteWeights& weights);

}  // namespace ingot
