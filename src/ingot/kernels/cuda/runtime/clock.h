#pragma once

#include <memory>

#include "ingot/core/device_clock.h"

namespace ingot::kernels::cuda {

/// The clock of CUDA device `index`. Its marks are events.
std::unique_ptr<DeviceClock> make_clock(int index);

}  // namespace ingot::kernels::cuda
