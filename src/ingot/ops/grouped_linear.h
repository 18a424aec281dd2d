#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// Matmuls of rows that are sorted into groups, each group with a weight of its own: rows [offsets[g],
/// offsets[g + 1]) of x times weight[g]ᵀ. What a mixture of experts runs: only groups that have rows cost
/// anything. x: [rows, in]; weight: [groups, out, in]; offsets: i64 [groups + 1], ascending from 0 to rows,
/// on x's device (of a GPU it is not read here, so nothing waits and nothing is checked). Returns [rows,
/// out]. Throws ShapeMismatch, DimensionMismatch.
Tensor grouped_linear(const Tensor& x, const Tensor& weight, const Tensor& offsets);

/// Which rows go to which expert: the (token, choice) pairs in order of their experts.
struct ExpertRouting {
  Tensor offsets;    ///< i64 [experts + 1]: where each expert's pairs start
  Tensor tokens;     ///< i64 [pairs]: the token of each pair, sorted by expert
  Tensor experts;    ///< i64 [pairs]: the expert of each of these
  Tensor positions;  ///< i64 [pairs]: where each pair went
};

/// `experts`: i64 [tokens, choices], each below `expert_count` (as topk's are). Nothing waits for a device,
/// and so the numbers of a GPU's tensor are not checked. Throws DimensionMismatch.
ExpertRouting route_experts(const Tensor& experts, std::int64_t expert_count);

}  // namespace ingot
