#include "ingot/nn/squeeze_excite.h"

#include "ingot/ops/squeeze_excite.h"

namespace ingot {

Tensor squeeze_excite_residual(const Tensor& x, const Tensor& residual, const Linear& squeeze,
                               const Linear& excite) {
  const Tensor w1 = squeeze.weight.effective(), w2 = excite.weight.effective();
  return squeeze_excite_residual(x, residual, {w1, squeeze.bias.value, w2, excite.bias.value});
}

Tensor dual_pool_residual(const Tensor& x, const Tensor& residual, const Linear& squeeze,
                          const Linear& excite) {
  const Tensor w1 = squeeze.weight.effective(), w2 = excite.weight.effective();
  return dual_pool_residual(x, residual, {w1, squeeze.bias.value, w2, excite.bias.value});
}

}  // namespace ingot
