#include "ingot/ops/weighted_roll.h"

#include <array>
#include <string>
#include <vector>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/weighted_roll.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

struct WeightedRollNode final : Node {
  static constexpr const char* kName = "weighted_roll";
  SavedTensor x, delays, weights;
  WeightedRollNode(const Tensor& x_, const Tensor& delays_, const Tensor& weights_)
      : x(x_), delays(delays_), weights(weights_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &delays, &weights}; }

  void backward(BackwardContext& ctx) override {
    const View dy = ctx.grad().view();
    if (const GradSlot dx = ctx.slot(0)) {
      kernels::launch(kernels::weighted_roll, ctx.stream(),
                      {.x = dy,
                       .delays = delays.view(),
                       .weights = weights.view(),
                       .y = dx.view,
                       .transposed = true,
                       .accumulate = dx.accumulate});
    }
    if (const GradSlot dw = ctx.slot(1)) {
      kernels::launch(
          kernels::weighted_roll_dot, ctx.stream(),
          {.x = x.view(), .delays = delays.view(), .dy = dy, .y = dw.view, .accumulate = dw.accumulate});
    }
  }
};

void check_delays(const Tensor& delays, std::int64_t length) {
  for (const std::int64_t delay : delays.to_vector<std::int64_t>()) {
    INGOT_CHECK(delay >= 0 && delay < length,
                DimensionMismatch("weighted_roll: a delay of " + std::to_string(delay) +
                                  " is outside a series of " + std::to_string(length) + " steps"));
  }
}

}  // namespace

Tensor weighted_roll(const Tensor& x, const Tensor& delays, const Tensor& weights) {
  check_defined(WeightedRollNode::kName, {&x, &delays}, false);
  if (x.rank() == 3 && delays.dtype() == DType::i64) check_delays(contiguous(delays), x.dim(1));
  return weighted_roll_within(x, delays, weights);
}

Tensor weighted_roll_within(const Tensor& x_in, const Tensor& delays_in, const Tensor& weights_in) {
  const OpScope op_scope(WeightedRollNode::kName, {&x_in, &weights_in});
  check_defined(WeightedRollNode::kName, {&x_in, &delays_in}, false);
  INGOT_CHECK(x_in.rank() == 3, DimensionMismatch("weighted_roll: x is [batch, length, width], got " +
                                                  to_string(x_in.shape())));
  INGOT_CHECK(
      delays_in.rank() == 2 && delays_in.dim(0) == x_in.dim(0) && delays_in.dtype() == DType::i64,
      ShapeMismatch("weighted_roll (delays)", {x_in.dim(0), -1}, delays_in.shape().to_vector(), "i64"));
  INGOT_CHECK(weights_in.shape() == delays_in.shape(),
              ShapeMismatch("weighted_roll (weights)", delays_in.shape().to_vector(),
                            weights_in.shape().to_vector(), "one weight for each delay"));
  const Tensor x = contiguous(x_in), delays = contiguous(delays_in), weights = contiguous(weights_in);
  Tensor y = Tensor::empty_like(x);
  kernels::launch(kernels::weighted_roll, current_stream(x.device()),
                  {.x = x.view(), .delays = delays.view(), .weights = weights.view(), .y = y.view()});
  return record<WeightedRollNode>(y, {&x, &weights}, x, delays, weights);
}

Tensor roll(const Tensor& x, std::int64_t shift, int axis) {
  const OpScope op_scope("roll", {&x});
  const int at = normalize_axis(axis, x.rank(), "roll");
  const std::int64_t n = x.dim(at);
  if (n == 0) return x;
  const std::int64_t head = ((-shift) % n + n) % n;  // what moves to the end
  if (head == 0) return x;
  return concat(std::array{slice(x, at, head), slice(x, at, 0, head)}, at);
}

}  // namespace ingot
