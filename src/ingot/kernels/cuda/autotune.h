#pragma once

#include <cstddef>

#include "ingot/base/parallel.h"

namespace ingot::kernels::cuda {

/// Which of `candidates` ways of doing one thing is the fastest: its number. `seconds(i)` does it once and
/// says how long that took, or something negative where that way fails. Each runs in turn, `rounds` times
/// after one that does not count; the shortest time of each is compared, since what disturbs a measurement
/// only adds to it. The first is the one to beat: another must be faster by a thirtieth, so that chance
/// seldom decides.
std::size_t fastest(std::size_t candidates, FunctionRef<double(std::size_t)> seconds, int rounds = 4);

/// INGOT_CUDA_AUTOTUNE=1: products try what cuBLASLt proposes, once for each shape. Two runs may then choose
/// differently, and sum in different orders; without it, the library's first proposal is taken.
bool autotunes();

}  // namespace ingot::kernels::cuda
