#include "ingot/ops/low_rank.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/kernel_traits.h"
#include "ingot/kernels/low_rank.h"
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

void check_shapes(const Shape& y, const Shape& x, const Tensor& a, const Tensor& b) {
  INGOT_CHECK(a.rank() == 2 && x.rank() >= 1 && x[-1] == a.dim(1),
              ShapeMismatch("add_low_rank (a)", {-1, x.rank() >= 1 ? x[-1] : 1}, a.shape().to_vector(),
                            "a is [rank, in] and x is [..., in]"));
  INGOT_CHECK(b.rank() == 2 && b.dim(1) == a.dim(0),
              ShapeMismatch("add_low_rank (b)", {-1, a.dim(0)}, b.shape().to_vector(), "b is [out, rank]"));
  INGOT_CHECK(y == x.with(-1, b.dim(0)),
              ShapeMismatch("add_low_rank (y)", x.with(-1, b.dim(0)).to_vector(), y.to_vector()));
}

void check_low_rank(const Tensor& y, const Tensor& x, const Tensor& a, const Tensor& b) {
  check_defined("add_low_rank", {&y, &x, &a, &b});
  check_shapes(y.shape(), x.shape(), a, b);
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

namespace {

// Else two matmuls are faster.
bool suits_one_launch(const View& x, const RowUpdate& update) {
  const kernels::KernelTraits& traits = kernels::kernel_traits(x.device);
  return update.count <= (is_half_precision(x.dtype) ? traits.low_rank_rows_in_half : traits.low_rank_rows);
}

bool meet(const RowUpdate& a, const RowUpdate& b) {
  return a.of == b.of && a.begin < b.begin + b.count && b.begin < a.begin + a.count;
}

// y and x as matrices.
void check_update(const RowUpdate& update, const View& y, const View& x) {
  INGOT_CHECK(
      update.begin >= 0 && update.count >= 0 && update.begin + update.count <= x.dim(0),
      DimensionMismatch(fmt::format("add_low_rank_rows: there are {} rows, and an update is of {} from {} on",
                                    x.dim(0), update.count, update.begin)));
  INGOT_CHECK(x.dtype == y.dtype, Error(fmt::format("add_low_rank_rows: x is {} and the result {}; one "
                                                    "dtype was expected",
                                                    name(x.dtype), name(y.dtype))));
  const DType dtype = update.a.dtype();
  const bool narrower = (is_half_precision(dtype) || dtype == DType::i8) && y.dtype == DType::f32;
  INGOT_CHECK(update.a.dtype() == update.b.dtype() && (narrower || dtype == y.dtype),
              Error(fmt::format("add_low_rank_rows: a is {} and b {}, beside {}; both in that, or in f16, "
                                "bf16 or i8 beside f32, were expected",
                                name(dtype), name(update.b.dtype()), name(y.dtype))));
  const bool fits = update.a.rank() == 2 && update.b.rank() == 2 && update.a.dim(1) == x.dim(1) &&
                    update.b.dim(1) == update.a.dim(0) && update.b.dim(0) == y.dim(1) && y.dim(0) == x.dim(0);
  if (!fits) check_shapes(Shape{y.dim(0), y.dim(1)}, Shape{x.dim(0), x.dim(1)}, update.a, update.b);
}

// Whether its rows or its columns are.
bool is_adjacent(const Tensor& x) {
  return (x.stride(1) == 1 && x.stride(0) >= x.dim(1)) || (x.stride(0) == 1 && x.stride(1) >= x.dim(0));
}

View rows_from(View matrix, std::int64_t begin, std::int64_t count) {
  const auto bytes = static_cast<std::int64_t>(byte_size(matrix.dtype));
  matrix.data = matrix.as<std::byte>() + begin * matrix.stride(0) * bytes;
  matrix.shape[0] = count;
  return matrix;
}

// Updates that do not meet; x and ys as matrices. A step of a model comes here hundreds of times, with an
// update for each adapter and layer: no tensor is made for those that are as the kernel wants them.
void launch_rows(const View& x, std::span<const View> ys, std::span<const RowUpdate> updates) {
  const Stream stream = current_stream(x.device);
  std::vector<kernels::LowRankUpdate> together;
  together.reserve(updates.size());
  std::vector<Tensor> kept;  // that the views are of
  const auto view_of = [&](const Tensor& matrix, bool is_ready, auto make_ready) {
    return is_ready ? matrix.view() : kept.emplace_back(make_ready(matrix)).view();
  };
  std::int64_t inner = 0;
  for (const RowUpdate& update : updates) {
    const View a = view_of(update.a, update.a.is_contiguous(), contiguous);
    const View b = view_of(update.b, is_adjacent(update.b), as_matrix);
    const View to_rows = rows_from(ys[update.of], update.begin, update.count);
    if (suits_one_launch(x, update)) {
      together.push_back({.a = a, .b = b, .y = to_rows, .begin = update.begin, .scale = update.scale});
      inner += together.back().inner();
      continue;
    }
    const Tensor between = Tensor::empty({update.count, a.dim(0)}, x.dtype, x.device);
    const Tensor down = to(update.a, x.dtype), up = as_matrix(to(update.b, x.dtype));
    launch_low_rank(to_rows, rows_from(x, update.begin, update.count), between.view(), down.view(), up.view(),
                    update.scale, stream);
  }
  if (together.empty()) return;
  const DType sums = x.dtype == DType::f64 ? DType::f64 : DType::f32;
  const Tensor scratch = Tensor::empty({inner}, sums, x.device);
  kernels::launch(kernels::low_rank, stream, {.x = x, .updates = together, .inner = scratch.view()});
}

}  // namespace

std::vector<Tensor> add_low_rank_rows(std::vector<Tensor> ys, const Tensor& x,
                                      std::span<const RowUpdate> updates) {
  const Scope scope(ScopeKind::op, "add_low_rank_rows");
  INGOT_CHECK(!grad_enabled(), Error("low-rank updates of some rows have no gradients: use a NoGrad scope"));
  const Tensor input = contiguous(x);
  const View rows = flattened(input.view());
  std::vector<bool> changes(ys.size());
  for (const RowUpdate& update : updates) {
    INGOT_CHECK(update.of < ys.size(),
                DimensionMismatch(fmt::format("add_low_rank_rows: there are {} results, and an update is of "
                                              "number {}",
                                              ys.size(), update.of)));
    changes[update.of] = true;
  }
  std::vector<View> sums(ys.size());
  for (std::size_t i = 0; i < ys.size(); ++i) {
    if (!changes[i]) continue;
    ys[i] = writable(ys[i]);
    sums[i] = flattened(ys[i].view());
  }
  for (const RowUpdate& update : updates) check_update(update, sums[update.of], rows);
  std::size_t first = 0;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const auto before = updates.subspan(first, i - first);
    if (std::ranges::none_of(before, [&](const RowUpdate& other) { return meet(other, updates[i]); }))
      continue;
    launch_rows(rows, sums, before);
    first = i;
  }
  launch_rows(rows, sums, updates.subspan(first));
  return ys;
}

}  // namespace ingot
