#pragma once

#include <cstdint>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/core/tensor.h"

// The same elements in other positions, by views and copies: wherever they are, of any dtype, without
// gradients.

namespace ingot::onnx {

/// How many positions an axis grows by at its begin and end, one number for each axis; negative ones cut it.
struct Padding {
  std::vector<std::int64_t> before, after;
};

/// `fill`: one element of x's dtype; undefined: zero.
Tensor pad_with(const Tensor& x, const Padding& padding, const Tensor& fill = {});
/// What is outside of an axis of `size` comes from its position source(position, size): position -1 is the
/// one before the first, `size` that after the last.
Tensor pad_from(const Tensor& x, const Padding& padding,
                FunctionRef<std::int64_t(std::int64_t, std::int64_t)> source);

/// These positions of an axis, in their order. All must be there.
Tensor pick(const Tensor& x, int axis, const std::vector<std::int64_t>& positions);
/// The whole tensor several times along each axis: a b a b.
Tensor tile(const Tensor& x, const std::vector<std::int64_t>& repeats);
/// Each element several times along each axis: a a b b.
Tensor repeat_each(const Tensor& x, const std::vector<std::int64_t>& repeats);

}  // namespace ingot::onnx
