#pragma once

#include "ingot/core/device.h"
#include "ingot/core/dtype.h"

namespace ingot {

/// The rate of matmuls of `dtype` on the device, in FLOP/s: the limit that training throughput is
/// shown against. Of 1024³ with the current threads on the CPU (about 50 ms), of 8192³ on a GPU, or less
/// where memory is short, after a second of them: a GPU that its power limits starts faster
/// than it goes on. The median of a few runs.
double measure_matmul_flops(DType dtype = DType::f32, Device device = kCpu);

}  // namespace ingot
