#include <string>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/reduce.h"
#include "ingot/ops/broadcast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/elementwise.h"

namespace ingot {
namespace {

using kernels::BinaryOp;
using kernels::CompareOp;

constexpr const char* kBinaryNames[] = {"add", "sub", "mul", "div", "maximum", "minimum"};
constexpr const char* kCompareNames[] = {"equal",      "not_equal", "less",
                                         "less_equal", "greater",   "greater_equal"};

// Fills input `input`'s gradient from fill(destination, accumulate): straight into the slot, or into scratch
// of the broadcast shape that is then summed.
template <class Fill>
void fill_or_sum(BackwardContext& ctx, int input, const Shape& shape, Fill&& fill) {
  if (!ctx.needs(input)) return;
  const Tensor& dy = ctx.grad();
  if (dy.shape() == shape) {
    const GradSlot slot = ctx.slot(input);
    return fill(slot.view, slot.accumulate);
  }
  const Tensor scratch = Tensor::empty_like(dy);
  fill(scratch.view(), false);
  pass_summed(ctx, input, scratch, shape);
}

// add and sub: nothing is saved.
struct AddNode final : Node {
  static constexpr const char* kName = "add";
  bool negative;  // b's sign
  explicit AddNode(bool negative_) : negative(negative_) {}
  std::string_view name() const override { return negative ? "sub" : kName; }

  void backward(BackwardContext& ctx) override {
    const Tensor& dy = ctx.grad();
    if (ctx.needs(0)) pass_summed(ctx, 0, dy, inputs()[0].shape);
    if (!ctx.needs(1)) return;
    if (!negative) return pass_summed(ctx, 1, dy, inputs()[1].shape);
    fill_or_sum(ctx, 1, inputs()[1].shape, [&](const View& to, bool accumulate) {
      kernels::launch(kernels::unary, ctx.stream(),
                      {.x = dy.view(), .y = to, .alpha = -1, .accumulate = accumulate});
    });
  }
};

struct BinaryNode final : Node {
  SavedTensor a, b;
  BinaryOp op;
  BinaryNode(const Tensor& a_, const Tensor& b_, BinaryOp op_) : a(a_), b(b_), op(op_) {}
  std::string_view name() const override { return kBinaryNames[static_cast<std::size_t>(op)]; }
  std::vector<SavedTensor*> saved() override { return {&a, &b}; }

  void backward(BackwardContext& ctx) override {
    const Tensor& dy = ctx.grad();
    const Shape shape = dy.shape();
    const View x = expanded(a.view(), shape), z = expanded(b.view(), shape);
    const bool product = op == BinaryOp::mul, quotient = op == BinaryOp::div;
    const auto partial = [&](const View& u, const View& v) {
      return [&, u, v](const View& to, bool accumulate) {
        kernels::launch(kernels::binary_backward, ctx.stream(),
                        {.a = u, .b = v, .dy = dy.view(), .dx = to, .op = op, .accumulate = accumulate});
      };
    };
    const auto times = [&](const View& v, BinaryOp with) {
      return [&, v, with](const View& to, bool accumulate) {
        kernels::launch(kernels::binary, ctx.stream(),
                        {.a = dy.view(), .b = v, .y = to, .op = with, .accumulate = accumulate});
      };
    };
    if (product || quotient) {
      fill_or_sum(ctx, 0, inputs()[0].shape, times(z, op));
    } else {
      fill_or_sum(ctx, 0, inputs()[0].shape, partial(x, z));
    }
    if (product) {
      fill_or_sum(ctx, 1, inputs()[1].shape, times(x, op));
    } else if (quotient) {
      fill_or_sum(ctx, 1, inputs()[1].shape, partial(x, z));
    } else {
      fill_or_sum(ctx, 1, inputs()[1].shape, partial(z, x));
    }
  }
};

Shape result_shape(const Tensor& a, const Tensor& b, const char* name) {
  const Shape shape = a.shape();
  return shape == b.shape() ? shape : broadcast_shapes(shape, b.shape(), name);
}

Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b) {
  const char* name = kBinaryNames[static_cast<std::size_t>(op)];
  const OpScope op_scope(name, {&a, &b});
  const Shape shape = result_shape(a, b, name);
  Tensor y = Tensor::empty(shape, a.dtype(), a.device());
  kernels::launch(kernels::binary, current_stream(a.device()),
                  {.a = expanded(a.view(), shape), .b = expanded(b.view(), shape), .y = y.view(), .op = op});
  if (op == BinaryOp::add || op == BinaryOp::sub) {
    return record<AddNode>(y, {&a, &b}, op == BinaryOp::sub);
  }
  return recomputable(record<BinaryNode>(y, {&a, &b}, a, b, op), {&a, &b},
                      [op](std::span<const Tensor> in) { return binary(op, in[0], in[1]); });
}

Tensor compare(CompareOp op, const Tensor& a, const Tensor& b) {
  const char* name = kCompareNames[static_cast<std::size_t>(op)];
  const OpScope op_scope(name, {&a, &b});
  const Shape shape = result_shape(a, b, name);
  Tensor y = Tensor::empty(shape, DType::boolean, a.device());
  kernels::launch(kernels::compare, current_stream(a.device()),
                  {.a = expanded(a.view(), shape), .b = expanded(b.view(), shape), .y = y.view(), .op = op});
  return y;
}

struct WhereNode final : Node {
  static constexpr const char* kName = "where";
  SavedTensor condition;
  explicit WhereNode(const Tensor& condition_) : condition(condition_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&condition}; }

  void backward(BackwardContext& ctx) override {
    const View dy = ctx.grad().view();
    const View choice = expanded(condition.view(), ctx.grad().shape());
    fill_or_sum(ctx, 0, inputs()[0].shape, [&](const View& to, bool accumulate) {
      kernels::launch(kernels::where, ctx.stream(),
                      {.condition = choice, .a = dy, .b = {}, .y = to, .accumulate = accumulate});
    });
    fill_or_sum(ctx, 1, inputs()[1].shape, [&](const View& to, bool accumulate) {
      kernels::launch(kernels::where, ctx.stream(),
                      {.condition = choice, .a = {}, .b = dy, .y = to, .accumulate = accumulate});
    });
  }
};

void check_in_place(const char* op, const Tensor& y, const Tensor& x) {
  check_defined(op, {&y, &x});
  INGOT_CHECK(!grad_enabled() || !y.requires_grad(),
              Error(std::string(op) + ": the destination requires a gradient; change it under NoGrad"));
  const Shape shape = y.shape();
  INGOT_CHECK(shape == x.shape() || broadcast_shapes(shape, x.shape(), op) == shape,
              ShapeMismatch(op, shape.to_vector(), x.shape().to_vector(),
                            "the operand broadcasts to the destination"));
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return binary(BinaryOp::add, a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary(BinaryOp::sub, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary(BinaryOp::mul, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return binary(BinaryOp::div, a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return binary(BinaryOp::maximum, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return binary(BinaryOp::minimum, a, b); }

Tensor equal(const Tensor& a, const Tensor& b) { return compare(CompareOp::equal, a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return compare(CompareOp::not_equal, a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return compare(CompareOp::less, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return compare(CompareOp::less_equal, a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return compare(CompareOp::greater, a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return compare(CompareOp::greater_equal, a, b); }

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const OpScope op_scope("where", {&a, &b});
  check_defined("where", {&a, &condition}, false);
  INGOT_CHECK(condition.dtype() == DType::boolean,
              KernelError("where", "the condition has dtype " + std::string(name(condition.dtype())) +
                                       "; compare it with something to get bool"));
  const Shape shape = broadcast_shapes(condition.shape(), result_shape(a, b, "where"), "where");
  Tensor y = Tensor::empty(shape, a.dtype(), a.device());
  kernels::launch(kernels::where, current_stream(a.device()),
                  {.condition = expanded(condition.view(), shape),
                   .a = expanded(a.view(), shape),
                   .b = expanded(b.view(), shape),
                   .y = y.view()});
  return record<WhereNode>(y, {&a, &b}, condition);
}

void add_(const Tensor& y, const Tensor& x, double alpha) {
  check_in_place("add_", y, x);
  const View from = expanded(x.view(), y.shape());
  if (alpha == 1) {
    kernels::launch(kernels::binary, current_stream(y.device()), {.a = y.view(), .b = from, .y = y.view()});
  } else {
    kernels::launch(kernels::unary, current_stream(y.device()),
                    {.x = from, .y = y.view(), .alpha = alpha, .accumulate = true});
  }
  y.storage()->bump_version();
}

void mul_(const Tensor& y, const Tensor& x) {
  check_in_place("mul_", y, x);
  kernels::launch(kernels::binary, current_stream(y.device()),
                  {.a = y.view(), .b = expanded(x.view(), y.shape()), .y = y.view(), .op = BinaryOp::mul});
  y.storage()->bump_version();
}

void mul_(const Tensor& y, double value) {
  check_in_place("mul_", y, y);
  kernels::launch(kernels::unary, current_stream(y.device()), {.x = y.view(), .y = y.view(), .alpha = value});
  y.storage()->bump_version();
}

void fill_(const Tensor& y, double value) {
  check_in_place("fill_", y, y);
  kernels::launch(kernels::fill, current_stream(y.device()), {.y = y.view(), .value = value});
  y.storage()->bump_version();
}

void zero_(const Tensor& y) { fill_(y, 0); }

}  // namespace ingot
