#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

enum class ReduceOp : std::uint8_t { sum, max, min };

/// y = scale · Σ x, or the extreme of x, over the axes where y's stride is 0: y is given as a view of x's
/// shape. Any strides, one floating dtype; sums are kept in f32 in groups of at most 1024 and beyond in f64.
/// An extreme passes a NaN on and needs at least one element; `accumulate` and `scale` are for sums.
/// partials: f64 scratch of reduce_partials(x, y) elements (reduce_axes.h), in which a GPU keeps what its
/// blocks reduced apart; without it a result is reduced in one piece.
struct ReduceArgs {
  View x, y, partials{};
  ReduceOp op = ReduceOp::sum;
  double scale = 1;
  bool accumulate = false;
};
inline Kernel<ReduceArgs> reduce("reduce");

/// y[row] = index of the row's largest element, the first of equals (a NaN counts as largest). x: [..., n]
/// contiguous, n > 0, floating; y: [...], i64.
struct ArgmaxArgs {
  View x, y;
};
inline Kernel<ArgmaxArgs> argmax("argmax");

}  // namespace ingot::kernels
