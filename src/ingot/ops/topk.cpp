#include "ingot/ops/topk.h"

#include <string>

#include "ingot/base/error.h"
#include "ingot/kernels/topk.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/index.h"

namespace ingot {

TopK topk(const Tensor& input, std::int64_t k) {
  const OpScope op_scope("topk", {&input});
  INGOT_CHECK(
      input.rank() >= 1 && k >= 1 && k <= input.dim(-1),
      DimensionMismatch("topk: cannot take " + std::to_string(k) +
                        " elements of the last axis of a tensor of shape " + to_string(input.shape())));
  const Tensor x = contiguous(input);
  const Tensor indices = Tensor::empty(x.shape().with(-1, k), DType::i64, x.device());
  kernels::launch(kernels::topk, current_stream(x.device()), {.x = x.view(), .indices = indices.view()});
  return {gather_within(x, x.rank() - 1, indices), indices};
}

}  // namespace ingot
