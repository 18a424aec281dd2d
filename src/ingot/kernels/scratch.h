#pragma once

#include "ingot/core/device.h"

namespace ingot::kernels {

/// How many parts the kernels of a device sum apart: rows of the scratch that they are given. num_threads()
/// on the CPU; four for each multiprocessor of a GPU.
int scratch_parts(Device device);

}  // namespace ingot::kernels
