#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

// Other ways to look at the same memory. Unless said otherwise nothing is copied: the result shares the
// argument's storage, and an in-place change of one shows in the other. Negative axes count from the last;
// DimensionMismatch names an axis or a range that is not there.

/// x with another shape of as many elements, row-major; one size may be -1 (what is left). Copies where x's
/// strides do not allow a view.
Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes);
Tensor reshape(const Tensor& x, const Shape& shape);
/// Axes [first, last] as one.
Tensor flatten(const Tensor& x, int first = 0, int last = -1);
/// Two axes exchanged.
Tensor transpose(const Tensor& x, int a, int b);
/// Axis i of the result is axis order[i] of x.
Tensor permute(const Tensor& x, const std::vector<int>& order);
Tensor squeeze(const Tensor& x, int axis);
Tensor unsqueeze(const Tensor& x, int axis);
/// Axes of size 1 repeated to `shape`, new axes in front. The result may not be written to.
Tensor broadcast_to(const Tensor& x, const Shape& shape);

inline constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
/// Elements start, start + step, ... below stop of one axis; negative start and stop count from its end, and
/// both are limited to it, as in Python. step > 0.
Tensor slice(const Tensor& x, int axis, std::int64_t start, std::int64_t stop = kEnd, std::int64_t step = 1);
/// `length` elements from `start` on; the range must be there.
Tensor narrow(const Tensor& x, int axis, std::int64_t start, std::int64_t length);
/// Element `index` of an axis, which goes away.
Tensor select(const Tensor& x, int axis, std::int64_t index);

/// Pieces of the given sizes, which add up to the axis.
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int axis = 0);
/// `count` pieces of equal size, which must divide the axis.
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, int axis = 0);

/// Copies: tensors one after another along an axis; along a new axis.
Tensor concat(std::span<const Tensor> tensors, int axis = 0);
Tensor stack(std::span<const Tensor> tensors, int axis = 0);

}  // namespace ingot
