#pragma once

#include <cstdint>
#include <span>

#include "ingot/core/tensor.h"

namespace ingot {

/// y + scale · (x·aᵀ)·bᵀ, the low-rank update of a linear layer (LoRA, Hu et al. 2021). y: [..., out], what
/// the layer itself makes of x: [..., in]; a: [rank, in]; b: [out, rank]; one dtype. Written into y's memory
/// where nobody else holds it (`std::move`). One node: the input gradient and those of a and b need two small
/// matmuls each, and only x·aᵀ is saved besides x. Throws ShapeMismatch.
Tensor add_low_rank(Tensor y, const Tensor& x, const Tensor& a, const Tensor& b, float scale);

/// An update of rows [begin, begin + count).
struct RowUpdate {
  std::int64_t begin = 0, count = 0;
  Tensor a, b;  ///< [rank, in], [out, rank]
  float scale = 1;
};
/// add_low_rank where rows have updates of their own, or none; those of one row add up. Without gradients:
/// Error while they are recorded. Throws ShapeMismatch, and DimensionMismatch for rows that y does not have.
Tensor add_low_rank_rows(Tensor y, const Tensor& x, std::span<const RowUpdate> updates);

}  // namespace ingot
