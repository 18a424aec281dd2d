#pragma once

#include "ingot/core/backend.h"

namespace ingot {

/// Whether the device's memory is the machine's own, which the host reads by pointer and without a wait.
inline bool has_host_memory(Device device) { return backend(device).capabilities().host_memory; }

}  // namespace ingot
