#include "ingot/ops/low_rank.h"

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/gemm.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/linear_operands.h"
#include "ingot/ops/view.h"

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

namespace {

// y += scale · (x·aᵀ)·bᵀ, in y's memory.
void launch_low_rank(const View& y, const View& x, const View& inner, const View& a, const View& b,
                     float scale, Stream stream) {
  kernels::launch(kernels::gemm, stream, {.a = x, .b = transposed(a), .c = inner});
  kernels::launch(kernels::gemm, stream,
                  {.a = inner, .b = transposed(b), .c = y, .alpha = scale, .beta = 1.0F});
}

}  // namespace

Tensor add_low_rank(Tensor y, const Tensor& x, const Tensor& a, const Tensor& b, float scale) {
  const Scope scope(ScopeKind::op, "add_low_rank");
  check_low_rank(y, x, a, b);
  const Tensor input = contiguous(x), down = as_matrix(a), up = as_matrix(b);
  const View rows = flattened(input.view());
  const Tensor inner = Tensor::empty({rows.dim(0), a.dim(0)}, x.dtype(), x.device());
  const Tensor sum = writable(y);
  launch_low_rank(flattened(sum.view()), rows, inner.view(), down.view(), up.view(), scale,
                  current_stream(x.device()));
  return record<AddLowRankNode>(sum, {&y, &input, &down, &up}, input, down, up, inner, scale);
}

Tensor add_low_rank_rows(Tensor y, const Tensor& x, std::span<const RowUpdate> updates) {
  const Scope scope(ScopeKind::op, "add_low_rank_rows");
  INGOT_CHECK(!grad_enabled(), Error("low-rank updates of some rows have no gradients: use a NoGrad scope"));
  const Tensor input = contiguous(x), sum = writable(y);
  const Tensor rows = reshape(input, {-1, x.dim(-1)}), sums = reshape(sum, {-1, y.dim(-1)});
  for (const RowUpdate& update : updates) {
    INGOT_CHECK(update.begin >= 0 && update.count >= 0 && update.begin + update.count <= rows.dim(0),
                DimensionMismatch(fmt::format("add_low_rank_rows: there are {} rows, and an update is of {} "
                                              "from {} on",
                                              rows.dim(0), update.count, update.begin)));
    const Tensor from = narrow(rows, 0, update.begin, update.count),
                 to = narrow(sums, 0, update.begin, update.count);
    check_low_rank(to, from, update.a, update.b);
    const Tensor inner = Tensor::empty({update.count, update.a.dim(0)}, x.dtype(), x.device());
    const Tensor down = as_matrix(update.a), up = as_matrix(update.b);
    launch_low_rank(to.view(), from.view(), inner.view(), down.view(), up.view(), update.scale,
                    current_stream(x.device()));
  }
  return sum;
}

}  // namespace ingot
