#pragma once

#include "ingot/core/device.h"

namespace ingot::test {

/// The card that tests of the CUDA leaf run on: a real one, or the emulated one.
inline constexpr Device kDevice{DeviceType::cuda, 0};

}  // namespace ingot::test
