#pragma once

#include <memory>

#include "ingot/core/backend.h"

namespace ingot {

/// The host's processors and memory. Memory is cached: freed blocks serve later allocations of about the same
/// size, because fresh pages cost a fault each (a training step would spend tens of milliseconds on them).
std::unique_ptr<ComputeBackend> make_cpu_backend();

}  // namespace ingot
