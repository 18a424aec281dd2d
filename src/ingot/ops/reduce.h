#pragma once

#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

/// Axes of a reduction; negative ones count from the last. None given means all.
using Axes = std::vector<int>;

/// Reductions of floating tensors of any strides, with gradients. The axes go away, or stay with size 1 with
/// `keepdim`. Sums are kept in f32 in short groups and in f64 beyond, in an order that depends on the shape
/// and the thread count alone. Throws DimensionMismatch for an axis that is not there or given twice.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
/// The extreme; a gradient is shared evenly among equal extremes. Throws where there is no element.
Tensor max(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor min(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
/// Σ (x − mean)² / (n − correction): correction 1 is the unbiased estimate.
Tensor var(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keepdim = false);
/// log Σ exp(x) over one axis.
Tensor logsumexp(const Tensor& x, int axis = -1, bool keepdim = false);
/// Index of the largest element along `axis`, i64; the first of equals.
Tensor argmax(const Tensor& x, int axis = -1, bool keepdim = false);

/// On the last axis.
Tensor softmax(const Tensor& x);
Tensor log_softmax(const Tensor& x);

}  // namespace ingot
