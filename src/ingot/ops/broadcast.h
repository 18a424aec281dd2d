#pragma once

#include "ingot/autograd/node.h"
#include "ingot/core/tensor.h"
#include "ingot/kernels/reduce.h"

namespace ingot {

/// `view` as one of `shape`, which it broadcasts to: repeated axes get stride 0. No check.
View expanded(const View& view, const Shape& shape);

/// Launches the reduction, with the scratch that its device asks for.
void launch_reduce(kernels::ReduceArgs args, Stream stream);

/// Adds the gradient `grad`, of a broadcast shape, to input `input` of shape `shape`: summed over the
/// repeated axes, or passed on where there are none.
void pass_summed(BackwardContext& ctx, int input, const Tensor& grad, const Shape& shape);

}  // namespace ingot
