#include "ingot/ops/rope_operands.h"

#include <algorithm>
#include <string>

#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

View positions_view(const Tensor& positions, std::int64_t batch) {
  View view = positions.view();
  if (!positions.defined() || view.rank == 2) return view;
  view.rank = 2;
  view.shape = {batch, positions.dim(0)};
  view.strides = {0, positions.stride(0)};
  return view;
}

}  // namespace

kernels::RopeAngles angles_of(const View& x, const View& cos, const View& sin, const RopeOptions& options) {
  return {.cos = cos,
          .sin = sin,
          .positions = positions_view(options.positions, x.dim(0)),
          .offset = options.offset,
          .rotated_heads = options.heads > 0 ? options.heads : x.dim(2),
          .interleaved = options.interleaved};
}

RopeOptions without_positions(RopeOptions options) {
  options.positions = {};
  return options;
}

SavedAngles::SavedAngles(const RopeTable& table, const RopeOptions& options_)
    : cos(table.cos), sin(table.sin), positions(options_.positions), options(without_positions(options_)) {}

kernels::RopeAngles SavedAngles::of(const View& x) const {
  RopeOptions all = options;
  if (positions.defined()) all.positions = positions.get();
  return angles_of(x, cos.view(), sin.view(), all);
}

Tensor checked_heads(const char* op, const Tensor& input, const RopeTable& table,
                     const RopeOptions& options) {
  const std::string name = op;
  check_defined(op, {&input});
  check_defined(op, {&table.cos, &table.sin});
  check_defined(op, {&input, &table.cos}, false);
  INGOT_CHECK(input.rank() == 4, DimensionMismatch(name + " takes [batch, sequence, heads, head size], got " +
                                                   to_string(input.shape())));
  INGOT_CHECK(table.cos.rank() == 2 && table.cos.shape() == table.sin.shape() && table.cos.is_contiguous() &&
                  table.sin.is_contiguous() && table.cos.dtype() == DType::f32,
              ShapeMismatch(name + " (table)", table.cos.shape().to_vector(), table.sin.shape().to_vector(),
                            "cos and sin are contiguous f32 [positions, half the rotary size]"));
  INGOT_CHECK(2 * table.cos.dim(1) <= input.dim(3),
              ShapeMismatch(name + " (table)", {-1, input.dim(3) / 2}, table.cos.shape().to_vector(),
                            "the table has more angles than a head has pairs"));
  INGOT_CHECK(options.heads >= 0 && options.heads <= input.dim(2),
              DimensionMismatch(name + ": asked to rotate " + std::to_string(options.heads) + " heads of " +
                                std::to_string(input.dim(2))));
  if (options.positions.defined()) {
    const Tensor& p = options.positions;
    INGOT_CHECK(p.dtype() == DType::i64 || p.dtype() == DType::i32,
                KernelError(op, "positions must be i64 or i32"));
    INGOT_CHECK((p.rank() == 1 && p.dim(0) == input.dim(1)) ||
                    (p.rank() == 2 && p.dim(0) == input.dim(0) && p.dim(1) == input.dim(1)),
                ShapeMismatch(name + " (positions)", {input.dim(0), input.dim(1)}, p.shape().to_vector()));
  }
  return input.stride(3) == 1 || input.dim(3) == 1 ? input : contiguous(input);
}

void check_pair(const char* op, const Tensor& q, const Tensor& k) {
  check_defined(op, {&q, &k});
  INGOT_CHECK(q.shape().with(2, k.dim(2)) == k.shape(),
              ShapeMismatch(op, q.shape().to_vector(), k.shape().to_vector(),
                            "q and k may differ in their numbers of heads only"));
}

kernels::RopeAngles angles_of_pair(const View& q, const View& k, const RopeTable& table,
                                   const RopeOptions& options) {
  kernels::RopeAngles angles = angles_of(q, table.cos.view(), table.sin.view(), options);
  if (options.heads == 0) angles.rotated_heads = std::max(q.dim(2), k.dim(2));
  return angles;
}

}  // namespace ingot
