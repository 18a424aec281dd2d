#pragma once

#include "ingot/core/device.h"

namespace ingot {

/// The rate of an f32 matrix product of 1024³ on this machine with the current threads, in FLOP/s: the limit
/// that training throughput is shown against. Takes about 50 ms; the median of a few runs.
double measure_matmul_flops(Device device = kCpu);

}  // namespace ingot
