#include "ingot/ops/broadcast.h"

#include "ingot/core/tensor.h"
#include "ingot/kernels/kernel_traits.h"
#include "ingot/kernels/reduce_axes.h"

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

void launch_reduce(kernels::ReduceArgs args, Stream stream) {
  const bool takes_scratch = kernels::kernel_traits(stream.device).scratch;
  const std::int64_t partials = takes_scratch ? kernels::reduce_partials(args.x, args.y) : 0;
  Tensor scratch;
  if (partials > 0) {
    scratch = Tensor::empty({partials}, DType::f64, stream.device);
    args.partials = scratch.view();
  }
  kernels::launch(kernels::reduce, stream, args);
}

void pass_summed(BackwardContext& ctx, int input, const Tensor& grad, const Shape& shape) {
  if (grad.shape() == shape) return ctx.pass(input, grad);
  const GradSlot slot = ctx.slot(input);
  if (!slot) return;
  launch_reduce({.x = grad.view(), .y = expanded(slot.view, grad.shape()), .accumulate = slot.accumulate},
                ctx.stream());
}

}  // namespace ingot
