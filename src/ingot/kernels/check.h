#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// count[0] = the number of NaNs and infinities in x (floating, any strides). count: [1], i64.
struct CountNonfiniteArgs {
  View x, count;
};
inline Kernel<CountNonfiniteArgs> count_nonfinite("count_nonfinite");

}  // namespace ingot::kernels
