#include "ingot/kernels/cuda/runtime/launch_site.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/cuda/runtime/driver.h"
#include "ingot/kernels/cuda/runtime/last_error.h"
#include "ingot/kernels/cuda/runtime/sync.h"

namespace ingot::kernels::cuda {

int multiprocessors(Device device) { return std::max(1, backend(device).capabilities().compute_units); }

unsigned grid_for(Device device, std::int64_t total, std::int64_t per_block, int waves) {
  const std::int64_t blocks = (total + per_block - 1) / per_block;
  const std::int64_t most = std::int64_t{waves} * multiprocessors(device);
  return static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, most));
}

std::size_t shared_memory(Device device) {
  static const std::vector<std::size_t> found = [] {  // asking takes longer than a kernel
    std::string problem;
    std::vector<std::size_t> bytes(static_cast<std::size_t>(driver::device_count(problem)));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = driver::properties(static_cast<int>(i)).shared_memory;
    return bytes;
  }();
  return found.at(static_cast<std::size_t>(device.index));
}

void throw_launch_failed(const LaunchSite& site, Size3 grid, Size3 block, std::size_t shared_bytes,
                         const char* said) {
  std::vector<std::int64_t> shape(site.operand.shape.begin(), site.operand.shape.begin() + site.operand.rank);
  KernelError error(
      site.kernel,
      fmt::format("{}: {} of shape {}, launched on {} as {} x {} x {} blocks of {} x {} x {} threads with {} "
                  "bytes of shared memory",
                  said, name(site.operand.dtype), to_string(shape), to_string(site.stream.device), grid.x,
                  grid.y, grid.z, block.x, block.y, block.z, shared_bytes) +
          (waits_after_launch() ? "" : driver::kMayBeEarlier));
  note_error(site.stream.device.index, error.what());
  throw KernelError(std::move(error));
}

}  // namespace ingot::kernels::cuda
