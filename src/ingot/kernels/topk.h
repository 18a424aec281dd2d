#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// indices[row] = the positions of the k largest elements of each row of x, largest first; of equals the
/// first comes first. x: [..., n], contiguous, floating; indices: [..., k], contiguous, i64; 0 < k <= n. A
/// NaN counts as the smallest.
struct TopKArgs {
  View x, indices;
};
inline Kernel<TopKArgs> topk("topk");

}  // namespace ingot::kernels
