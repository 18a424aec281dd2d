#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

// Indices are i64 or i32. An index outside its axis throws DimensionMismatch that names the operation, the
// position, the value and the bound.

/// weight[ids]: weight [rows, d], ids [...] -> [..., d]. The gradient touches only the rows that ids name
/// where there is one already, and does not depend on the thread count.
Tensor embedding(const Tensor& weight, const Tensor& ids);
/// y[.., i, ..] = x[.., index[.., i, ..], ..] on `axis`; index has y's shape, and x's sizes on other axes.
Tensor gather(const Tensor& x, int axis, const Tensor& index);
/// gather() and index_select() along an axis from 0 on, where every index is known to lie within x: nothing
/// is checked, so nobody waits for a device.
Tensor gather_within(const Tensor& x, int axis, const Tensor& index);
Tensor index_select_within(const Tensor& x, int axis, const Tensor& indices);
/// x plus source[.., i, ..] at [.., index[.., i, ..], ..]; index has source's shape.
Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source);
/// Slices `indices` ([n]) of an axis.
Tensor index_select(const Tensor& x, int axis, const Tensor& indices);
/// 1 at ids, 0 elsewhere: ids [...] -> [..., classes].
Tensor one_hot(const Tensor& ids, std::int64_t classes, DType dtype = DType::f32);

}  // namespace ingot
