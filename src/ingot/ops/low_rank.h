#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// y + scale · (x·aᵀ)·bᵀ, the low-rank update of a linear layer (LoRA, Hu et al. 2021). y: [..., out], what
/// the layer itself makes of x: [..., in]; a: [rank, in]; b: [out, rank]; one dtype. Written into y's memory
/// where nobody else holds it (`std::move`). One node: the input gradient and those of a and b need two small
/// matmuls each, and only x·aᵀ is saved besides x. Throws ShapeMismatch.
Tensor add_low_rank(Tensor y, const Tensor& x, const Tensor& a, const Tensor& b, float scale);

}  // namespace ingot
