#pragma once

#include <cstdint>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

/// Products of rows that are sorted into groups, each group with a weight of its own: rows [offsets[g],
/// offsets[g + 1]) of x times weight[g]ᵀ. What a mixture of experts runs: only groups that have rows cost
/// anything. x: [rows, in]; weight: [groups, out, in]; offsets: groups + 1 ascending numbers from 0 to rows.
/// Returns [rows, out]. Throws ShapeMismatch.
Tensor grouped_linear(const Tensor& x, const Tensor& weight, const std::vector<std::int64_t>& offsets);

}  // namespace ingot
