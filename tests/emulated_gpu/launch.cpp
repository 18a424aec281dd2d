#include "ingot/kernels/cuda/hardware/launch.h"

#include <cstring>

#include "tests/emulated_gpu/memory.h"
#include <fmt/format.h>
#include <sys/mman.h>

#include "ingot/base/error.h"

namespace ingot::kernels::cuda::emulation {

namespace {

// Where Linux puts heaps, stacks and libraries on x86-64 and aarch64. A pair of small integers can look like
// such an address, but hardly like one that is mapped.
bool is_host_address(std::uint64_t word) {
  if (word < 0x0000500000000000 || word > 0x00007fffffffffff) return false;
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(word / 4096 * 4096), 1, &resident) == 0;
}

}  // namespace

void check_argument(const LaunchSite& site, const void* argument, std::size_t bytes) {
  const auto* from = static_cast<const char*>(argument);
  for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + at, 8);
    const std::optional<int> device = device_of(reinterpret_cast<const void*>(word));
    INGOT_CHECK(device.has_value() || !is_host_address(word),
                KernelError(site.kernel, fmt::format("an argument holds the host's address {:#x}; kernels "
                                                     "reach only device memory",
                                                     word)));
    INGOT_CHECK(device.value_or(site.stream.device.index) == site.stream.device.index,
                KernelError(site.kernel, fmt::format("an argument holds an address of cuda:{}; the kernel "
                                                     "runs on cuda:{}",
                                                     *device, int{site.stream.device.index})));
  }
}

}  // namespace ingot::kernels::cuda::emulation
