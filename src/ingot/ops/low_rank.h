#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

/// y + scale · (x·aᵀ)·bᵀ, the low-rank update of a linear layer (LoRA, Hu et al. 2021). y: [..., out], what
/// the layer itself makes of x: [..., in]; a: [rank, in]; b: [out, rank]; one dtype. Written into y's memory
/// where nobody else holds it (`std::move`). One node: the input gradient and those of a and b need two small
/// matmuls each, and only x·aᵀ is saved besides x. Throws ShapeMismatch.
Tensor add_low_rank(Tensor y, const Tensor& x, const Tensor& a, const Tensor& b, float scale);

/// An update of rows [begin, begin + count) of one of several results.
struct RowUpdate {
  std::size_t of = 0;  ///< which result
  std::int64_t begin = 0, count = 0;
  Tensor a, b;  ///< [rank, in], [out, rank]; in the result's dtype, or f16, bf16 or i8 beside f32
  float scale = 1;
};
/// add_low_rank where rows have updates of their own, or none, of several layers with one input (query, key
/// and value) at once: one launch for all that do not meet. Updates of one row add up, in their order. A row
/// has the same bits whatever the others are; on a GPU only while an update has few rows. Without gradients:
/// Error while they are recorded. Throws ShapeMismatch, and DimensionMismatch for rows that a result does not
/// have.
std::vector<Tensor> add_low_rank_rows(std::vector<Tensor> ys, const Tensor& x,
                                      std::span<const RowUpdate> updates);

}  // namespace ingot
