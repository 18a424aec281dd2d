#include "ingot/nn/grow_rows.h"

#include <vector>

#include "ingot/autograd/grad_mode.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {

Tensor with_mean_rows(const Tensor& table, std::int64_t rows) {
  const NoGrad no_grad;
  const Tensor mean =
      sum(to(table.detach(), DType::f32), {0}, true) * (1.0 / static_cast<double>(table.dim(0)));
  std::vector<Tensor> all(static_cast<std::size_t>(rows - table.dim(0) + 1), to(mean, table.dtype()));
  all.front() = table.detach();
  return concat(all, 0);
}

void grow_rows(LinearWeight& weight, std::int64_t rows, DType dtype) {
  if (weight.is_quantized()) {
    weight.dense.replace(quant::values(*weight.packed, dtype));
    weight.packed = nullptr;
  }
  weight.dense.replace(with_mean_rows(weight.dense.value, rows));
}

}  // namespace ingot
