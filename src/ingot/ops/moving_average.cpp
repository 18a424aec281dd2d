#include "ingot/ops/moving_average.h"

#include <string>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/moving_average.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

// [outer, length, inner] of a contiguous view.
View as_lines(View view, int axis) {
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= view.dim(i);
  for (int i = axis + 1; i < view.rank; ++i) inner *= view.dim(i);
  return contiguous_view(view.data, {outer, view.dim(axis), inner}, view.dtype, view.device);
}

struct MovingAverageNode final : Node {
  static constexpr const char* kName = "moving_average";
  std::int64_t window;
  int axis;
  bool transposed;
  MovingAverageNode(std::int64_t window_, int axis_, bool transposed_)
      : window(window_), axis(axis_), transposed(transposed_) {}
  std::string_view name() const override { return kName; }

  void backward(BackwardContext& ctx) override {
    const GradSlot dx = ctx.slot(0);
    kernels::launch(kernels::moving_average, ctx.stream(),
                    {.x = as_lines(ctx.grad().view(), axis),
                     .y = as_lines(dx.view, axis),
                     .window = window,
                     .transposed = !transposed,
                     .accumulate = dx.accumulate});
  }
};

Tensor run(const Tensor& input, std::int64_t window, int axis, bool transposed) {
  const OpScope op_scope("moving_average", {&input});
  INGOT_CHECK(axis >= -input.rank() && axis < input.rank(),
              DimensionMismatch("moving_average: there is no axis " + std::to_string(axis) + " in " +
                                to_string(input.shape())));
  INGOT_CHECK(window >= 1,
              InvalidConfig("moving_average.window", "must be at least 1, got " + std::to_string(window)));
  const int from_front = axis < 0 ? axis + input.rank() : axis;
  const Tensor x = contiguous(input);
  Tensor y = Tensor::empty_like(x);
  if (x.numel() > 0) {
    kernels::launch(kernels::moving_average, current_stream(x.device()),
                    {.x = as_lines(x.view(), from_front),
                     .y = as_lines(y.view(), from_front),
                     .window = window,
                     .transposed = transposed});
  }
  return record<MovingAverageNode>(y, {&x}, window, from_front, transposed);
}

}  // namespace

Tensor moving_average(const Tensor& x, std::int64_t window, int axis) { return run(x, window, axis, false); }

Tensor moving_average_transposed(const Tensor& x, std::int64_t window, int axis) {
  return run(x, window, axis, true);
}

}  // namespace ingot
