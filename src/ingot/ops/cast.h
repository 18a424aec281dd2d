#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// x with elements converted (see kernels/copy.h for the rounding); x itself when nothing changes.
Tensor to(const Tensor& x, DType dtype);
/// x on another device; x itself when it is there. Gradients flow back to x's device.
Tensor to(const Tensor& x, Device device);
/// x row-major without gaps; x itself when it is.
Tensor contiguous(const Tensor& x);
/// A copy in memory of its own.
Tensor clone(const Tensor& x);
/// Writes x into y's memory in place (same shape; converted); bumps y's version. Not differentiable: y may
/// not be part of a graph.
void copy_(const Tensor& y, const Tensor& x);

}  // namespace ingot
