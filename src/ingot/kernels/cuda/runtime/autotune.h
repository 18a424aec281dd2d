#pragma once

#include <cstddef>
#include <cstdint>

#include "ingot/base/parallel.h"

namespace ingot::kernels::cuda {

/// Which of `candidates` ways of computing the same is the fastest when it is done again and again: its
/// number. `seconds(i, times)` does it that often, back to back, and says how long all of it took, or
/// something negative where that way fails.
///
/// Within milliseconds of hard work a GPU at its power limit lowers its clock, by as much as that work's
/// power asks for. So short runs choose the final three only: the first, which is the one to beat, and the
/// two fastest others. These run in turn, three rounds, each until the clock is its own and then for 20 ms
/// that count, at least three times. Medians decide, and another than the first must be faster by 3 %, so
/// that chance seldom does. All of it takes up to about half a second, unless a single run takes more than
/// 20 ms.
std::size_t fastest(std::size_t candidates, FunctionRef<double(std::size_t, std::int64_t)> seconds);

/// INGOT_CUDA_AUTOTUNE=1: matmuls try what cuBLASLt proposes, once for each shape. Two runs may then choose
/// differently, and sum in different orders; without it, the library's first proposal is taken.
bool autotunes();

}  // namespace ingot::kernels::cuda
