#pragma once

#include <cstddef>
#include <cstdint>

#include "ingot/core/stream.h"
#include "ingot/core/view.h"

namespace ingot::kernels::cuda {

struct Size3 {
  unsigned x = 1, y = 1, z = 1;
};

/// Of which kernel and operand an error tells, and where the work goes.
struct LaunchSite {
  const char* kernel;
  Stream stream;
  View operand;  ///< the main one
};

/// How many multiprocessors the device has: a grid that loops over its work has a small multiple of that.
int multiprocessors(Device device);
/// How many blocks of `per_block` cover `total`, at most `waves` for each multiprocessor.
unsigned grid_for(Device device, std::int64_t total, std::int64_t per_block, int waves = 16);

/// How many bytes of shared memory one block can have on the device.
std::size_t shared_memory(Device device);

/// Throws KernelError for a launch that failed, with what the driver said of it.
[[noreturn]] void throw_launch_failed(const LaunchSite& site, Size3 grid, Size3 block,
                                      std::size_t shared_bytes, const char* said);

}  // namespace ingot::kernels::cuda
