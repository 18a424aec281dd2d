#include "ingot/ops/low_rank.h"

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/gemm.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/linear_operands.h"

namespace ingot {
namespace {

float beta_of(const GradSlot& slot) { return slot.accumulate ? 1.0F : 0.0F; }

struct AddLowRankNode final : Node {
  static constexpr const char* kName = "add_low_rank";
  SavedTensor x, a, b, inner;  // inner = x·aᵀ
  float scale;
  AddLowRankNode(const Tensor& x_, const Tensor& a_, const Tensor& b_, const Tensor& inner_, float scale_)
      : x(x_), a(a_), b(b_), inner(inner_), scale(scale_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &a, &b, &inner}; }

  // Inputs: y, x, a, b.
  void backward(BackwardContext& ctx) override {
    const View dy = flattened(ctx.grad().view());
    if (const GradSlot db = ctx.slot(3)) launch(ctx, transposed(dy), inner.view(), db, scale);
    if (ctx.needs(1) || ctx.needs(2)) {
      const Tensor dinner = Tensor::empty({dy.dim(0), a.view().dim(0)}, dy.dtype, dy.device);
      kernels::launch(kernels::gemm, ctx.stream(),
                      {.a = dy, .b = b.view(), .c = dinner.view(), .alpha = scale});
      if (const GradSlot dx = ctx.slot(1)) launch(ctx, dinner.view(), a.view(), dx, 1.0F);
      if (const GradSlot da = ctx.slot(2))
        launch(ctx, transposed(dinner.view()), flattened(x.view()), da, 1.0F);
    }
    ctx.pass(0, ctx.grad());
  }

 private:
  static void launch(BackwardContext& ctx, const View& left, const View& right, const GradSlot& to,
                     float alpha) {
    kernels::launch(kernels::gemm, ctx.stream(),
                    {.a = left, .b = right, .c = flattened(to.view), .alpha = alpha, .beta = beta_of(to)});
  }
};

void check_low_rank(const Tensor& y, const Tensor& x, const Tensor& a, const Tensor& b) {
  check_defined("add_low_rank", {&y, &x, &a, &b});
  INGOT_CHECK(a.rank() == 2 && x.rank() >= 1 && x.dim(-1) == a.dim(1),
              ShapeMismatch("add_low_rank (a)", {-1, x.rank() >= 1 ? x.dim(-1) : 1}, a.shape().to_vector(),
                            "a is [rank, in] and x is [..., in]"));
  INGOT_CHECK(b.rank() == 2 && b.dim(1) == a.dim(0),
              ShapeMismatch("add_low_rank (b)", {-1, a.dim(0)}, b.shape().to_vector(), "b is [out, rank]"));
  INGOT_CHECK(
      y.shape() == x.shape().with(-1, b.dim(0)),
      ShapeMismatch("add_low_rank (y)", x.shape().with(-1, b.dim(0)).to_vector(), y.shape().to_vector()));
}

// y's memory where it is nobody else's, or a copy.
Tensor writable(const Tensor& y) {
  if (y.is_contiguous() && y.storage().use_count() == 1) {
    y.storage()->bump_version();
    return y.detach();
  }
  Tensor copy = Tensor::empty(y.shape(), y.dtype(), y.device());
  kernels::launch(kernels::copy, current_stream(y.device()), {.x = y.view(), .y = copy.view()});
  return copy;
}

}  // namespace

Tensor add_low_rank(Tensor y, const Tensor& x, const Tensor& a, const Tensor& b, float scale) {
  const Scope scope(ScopeKind::op, "add_low_rank");
  check_low_rank(y, x, a, b);
  const Tensor input = contiguous(x), down = as_matrix(a), up = as_matrix(b);
  const View rows = flattened(input.view());
  const Tensor inner = Tensor::empty({rows.dim(0), a.dim(0)}, x.dtype(), x.device());
  const Stream stream = current_stream(x.device());
  kernels::launch(kernels::gemm, stream, {.a = rows, .b = transposed(down.view()), .c = inner.view()});
  const Tensor sum = writable(y);
  kernels::launch(kernels::gemm, stream,
                  {.a = inner.view(),
                   .b = transposed(up.view()),
                   .c = flattened(sum.view()),
                   .alpha = scale,
                   .beta = 1.0F});
  return record<AddLowRankNode>(sum, {&y, &input, &down, &up}, input, down, up, inner, scale);
}

}  // namespace ingot
