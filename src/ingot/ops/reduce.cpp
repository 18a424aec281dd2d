#include "ingot/ops/reduce.h"

#include <string>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/reduce.h"
#include "ingot/kernels/softmax.h"
#include "ingot/ops/broadcast.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using kernels::ReduceOp;

constexpr const char* kNames[] = {"sum", "max", "min"};

// The result's shape with every axis kept (size 1), and without the reduced ones.
struct ReducedShape {
  Shape kept, dropped;
  std::int64_t count = 1;  // elements per result
};

ReducedShape reduced_shape(const char* name, const Shape& shape, const Axes& axes) {
  ReducedShape result{shape, {}, 1};
  std::array<bool, kMaxRank> reduced{};
  for (const int given : axes) {
    const int axis = normalize_axis(given, shape.rank(), name);
    bool& seen = reduced[static_cast<std::size_t>(axis)];
    INGOT_CHECK(!seen,
                DimensionMismatch(std::string(name) + ": axis " + std::to_string(given) + " is given twice"));
    seen = true;
  }
  std::vector<std::int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) {
    if (axes.empty() || reduced[static_cast<std::size_t>(i)]) {
      result.count *= shape[i];
      result.kept[i] = 1;
    } else {
      dims.push_back(shape[i]);
    }
  }
  result.dropped = Shape(std::span<const std::int64_t>(dims));
  return result;
}

// A result's view (contiguous, without the reduced axes) as one of x's shape.
View as_broadcast(const View& y, const Shape& kept, const Shape& shape) {
  return expanded(contiguous_view(y.data, kept, y.dtype, y.device), shape);
}

struct SumNode final : Node {
  static constexpr const char* kName = "sum";
  Shape kept;
  double scale;
  SumNode(const Shape& kept_, double scale_) : kept(kept_), scale(scale_) {}
  std::string_view name() const override { return kName; }

  void backward(BackwardContext& ctx) override {
    const GradSlot dx = ctx.slot(0);
    kernels::launch(kernels::unary, ctx.stream(),
                    {.x = as_broadcast(ctx.grad().view(), kept, inputs()[0].shape),
                     .y = dx.view,
                     .alpha = scale,
                     .accumulate = dx.accumulate});
  }
};

struct ExtremeNode final : Node {
  SavedTensor x, y;
  Shape kept;
  ReduceOp op;
  ExtremeNode(const Tensor& x_, const Tensor& y_, const Shape& kept_, ReduceOp op_)
      : x(x_), y(y_), kept(kept_), op(op_) {}
  std::string_view name() const override { return kNames[static_cast<std::size_t>(op)]; }
  std::vector<SavedTensor*> saved() override { return {&x, &y}; }

  void backward(BackwardContext& ctx) override {
    const Tensor& source = x.get();
    const Shape shape = source.shape();
    const Tensor extreme =
        Tensor(y.get().storage(), contiguous_view(y.view().data, kept, source.dtype(), source.device()));
    const Tensor dy = Tensor(ctx.grad().storage(),
                             contiguous_view(ctx.grad().view().data, kept, source.dtype(), source.device()));
    const Tensor hit = equal(source, extreme);
    const Tensor share = div(dy, sum_to_shape(to(hit, source.dtype()), kept));
    const GradSlot dx = ctx.slot(0);
    kernels::launch(kernels::where, ctx.stream(),
                    {.condition = hit.view(),
                     .a = expanded(share.view(), shape),
                     .b = {},
                     .y = dx.view,
                     .accumulate = dx.accumulate});
  }
};

Tensor reduced(ReduceOp op, const Tensor& x, const ReducedShape& to, bool keepdim, double scale = 1) {
  Tensor y = Tensor::empty(keepdim ? to.kept : to.dropped, x.dtype(), x.device());
  launch_reduce({.x = x.view(), .y = as_broadcast(y.view(), to.kept, x.shape()), .op = op, .scale = scale},
                current_stream(x.device()));
  return y;
}

Tensor sum_scaled(const char* name, const Tensor& x, const Axes& axes, bool keepdim, bool mean) {
  const OpScope op_scope(name, {&x});
  const ReducedShape to = reduced_shape(name, x.shape(), axes);
  INGOT_CHECK(!mean || to.count > 0, DimensionMismatch("mean: no elements in shape " + to_string(x.shape())));
  const double scale = mean ? 1.0 / static_cast<double>(to.count) : 1.0;
  return record<SumNode>(reduced(ReduceOp::sum, x, to, keepdim, scale), {&x}, to.kept, scale);
}

Tensor extreme(ReduceOp op, const Tensor& x, const Axes& axes, bool keepdim) {
  const char* name = kNames[static_cast<std::size_t>(op)];
  const OpScope op_scope(name, {&x});
  const ReducedShape to = reduced_shape(name, x.shape(), axes);
  INGOT_CHECK(to.count > 0,
              DimensionMismatch(std::string(name) + ": no elements in shape " + to_string(x.shape())));
  Tensor y = reduced(op, x, to, keepdim);
  return record<ExtremeNode>(y, {&x}, x, y, to.kept, op);
}

struct SoftmaxNode final : Node {
  static constexpr const char* kName = "softmax";
  SavedTensor y;
  bool log;
  SoftmaxNode(const Tensor& y_, bool log_) : y(y_), log(log_) {}
  std::string_view name() const override { return log ? "log_softmax" : kName; }
  std::vector<SavedTensor*> saved() override { return {&y}; }

  void backward(BackwardContext& ctx) override {
    const GradSlot dx = ctx.slot(0);
    kernels::launch(
        kernels::softmax_backward, ctx.stream(),
        {.y = y.view(), .dy = ctx.grad().view(), .dx = dx.view, .log = log, .accumulate = dx.accumulate});
  }
};

Tensor softmax_of(const char* name, const Tensor& input, bool log) {
  const OpScope op_scope(name, {&input});
  INGOT_CHECK(input.rank() >= 1, DimensionMismatch(std::string(name) + ": a scalar has no last axis"));
  const Tensor x = contiguous(input);
  Tensor y = Tensor::empty_like(x);
  kernels::launch(kernels::softmax, current_stream(x.device()), {.x = x.view(), .y = y.view(), .log = log});
  return record<SoftmaxNode>(y, {&x}, y, log);
}

struct LogSumExpNode final : Node {
  static constexpr const char* kName = "logsumexp";
  SavedTensor x, y;
  LogSumExpNode(const Tensor& x_, const Tensor& y_) : x(x_), y(y_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &y}; }

  void backward(BackwardContext& ctx) override {
    const GradSlot dx = ctx.slot(0);
    kernels::launch(
        kernels::logsumexp_backward, ctx.stream(),
        {.x = x.view(), .y = y.view(), .dy = ctx.grad().view(), .dx = dx.view, .accumulate = dx.accumulate});
  }
};

// The axis as last one, contiguous.
Tensor with_axis_last(const Tensor& x, int axis) { return contiguous(transpose(x, axis, -1)); }

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keepdim) {
  return sum_scaled("sum", x, axes, keepdim, false);
}
Tensor mean(const Tensor& x, const Axes& axes, bool keepdim) {
  return sum_scaled("mean", x, axes, keepdim, true);
}
Tensor max(const Tensor& x, const Axes& axes, bool keepdim) {
  return extreme(ReduceOp::max, x, axes, keepdim);
}
Tensor min(const Tensor& x, const Axes& axes, bool keepdim) {
  return extreme(ReduceOp::min, x, axes, keepdim);
}

Tensor sum_to_shape(const Tensor& x, const Shape& shape) {
  const OpScope op_scope("sum_to_shape", {&x});
  if (x.shape() == shape) return x;
  INGOT_CHECK(shape.rank() <= x.rank() && broadcast_shapes(x.shape(), shape, "sum_to_shape") == x.shape(),
              ShapeMismatch("sum_to_shape", x.shape().to_vector(), shape.to_vector()));
  Axes axes;
  const int missing = x.rank() - shape.rank();
  for (int i = 0; i < x.rank(); ++i) {
    if (i < missing || (shape[i - missing] == 1 && x.dim(i) != 1)) axes.push_back(i);
  }
  return reshape(sum(x, axes), shape);
}

Tensor var(const Tensor& x, const Axes& axes, double correction, bool keepdim) {
  const OpScope op_scope("var", {&x});
  const double count = static_cast<double>(reduced_shape("var", x.shape(), axes).count);
  INGOT_CHECK(count > correction,
              DimensionMismatch("var: " + std::to_string(static_cast<std::int64_t>(count)) +
                                " elements are too few for correction " + std::to_string(correction)));
  return sum(square(sub(x, mean(x, axes, true))), axes, keepdim) * (1.0 / (count - correction));
}

Tensor logsumexp(const Tensor& input, int axis, bool keepdim) {
  const OpScope op_scope("logsumexp", {&input});
  const int at = normalize_axis(axis, input.rank(), "logsumexp");
  const Tensor x = with_axis_last(input, at);
  Tensor y = Tensor::empty(x.shape().drop_last(), x.dtype(), x.device());
  kernels::launch(kernels::logsumexp, current_stream(x.device()), {.x = x.view(), .y = y.view()});
  y = record<LogSumExpNode>(y, {&x}, x, y);
  if (at == input.rank() - 1) return keepdim ? unsqueeze(y, -1) : y;
  y = transpose(unsqueeze(y, -1), at, -1);  // back to its axis
  return keepdim ? y : squeeze(y, at);
}

Tensor argmax(const Tensor& input, int axis, bool keepdim) {
  const OpScope op_scope("argmax", {&input});
  const int at = normalize_axis(axis, input.rank(), "argmax");
  INGOT_CHECK(input.dim(at) > 0, DimensionMismatch("argmax: axis " + std::to_string(axis) + " is empty"));
  const NoGrad no_grad;
  const Tensor x = with_axis_last(input, at);
  Tensor y = Tensor::empty(x.shape().drop_last(), DType::i64, x.device());
  kernels::launch(kernels::argmax, current_stream(x.device()), {.x = x.view(), .y = y.view()});
  y = transpose(unsqueeze(y, -1), at, -1);
  return contiguous(keepdim ? y : squeeze(y, at));
}

Tensor softmax(const Tensor& x) { return softmax_of("softmax", x, false); }
Tensor log_softmax(const Tensor& x) { return softmax_of("log_softmax", x, true); }

}  // namespace ingot
