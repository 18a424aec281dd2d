#pragma once

#include "ingot/core/device.h"
#include "ingot/dist/communicator.h"
#include "ingot/train/history.h"

namespace ingot {

/// Of this process, or of those that do a run together, which all call it. Its step is 0.
MemoryRecord peak_memory(Device device, dist::Communicator* ranks);

}  // namespace ingot
