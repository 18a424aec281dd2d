#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

struct TopK {
  Tensor values;   ///< [..., k], largest first; gradients go back to where they came from
  Tensor indices;  ///< i64 [..., k]
};

/// The k largest elements of the last axis; of equals the first comes first. Throws DimensionMismatch where k
/// is not from 1 to the axis' size.
TopK topk(const Tensor& x, std::int64_t k);

}  // namespace ingot
