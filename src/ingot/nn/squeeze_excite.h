#pragma once

#include "ingot/nn/linear.h"

namespace ingot {

/// squeeze_excite_residual() with the weights of two layers, C to R and R to C. x, residual: [N, S, C].
Tensor squeeze_excite_residual(const Tensor& x, const Tensor& residual, const Linear& squeeze,
                               const Linear& excite);
/// dual_pool_residual(), likewise.
Tensor dual_pool_residual(const Tensor& x, const Tensor& residual, const Linear& squeeze,
                          const Linear& excite);

}  // namespace ingot
