#include "ingot/ops/broadcast.h"

#include "ingot/kernels/reduce.h"

namespace ingot {

View expanded(const View& view, const Shape& shape) {
  View result = view;
  result.rank = shape.rank();
  const int missing = shape.rank() - view.rank;
  for (int i = 0; i < shape.rank(); ++i) {
    const auto to = static_cast<std::size_t>(i);
    const bool repeated = i < missing || (view.dim(i - missing) == 1 && shape[i] != 1);
    result.shape[to] = shape[i];
    result.strides[to] = repeated ? 0 : view.stride(i - missing);
  }
  return result;
}

void pass_summed(BackwardContext& ctx, int input, const Tensor& grad, const Shape& shape) {
  if (grad.shape() == shape) return ctx.pass(input, grad);
  const GradSlot slot = ctx.slot(input);
  if (!slot) return;
  kernels::launch(kernels::reduce, ctx.stream(),
                  {.x = grad.view(), .y = expanded(slot.view, grad.shape()), .accumulate = slot.accumulate});
}

}  // namespace ingot
