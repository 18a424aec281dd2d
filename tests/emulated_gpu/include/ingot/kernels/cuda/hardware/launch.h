#pragma once

#include <functional>
#include <type_traits>

#include "tests/emulated_gpu/memory.h"

#include "ingot/kernels/cuda/device/device_code.h"
#include "ingot/kernels/cuda/runtime/launch_site.h"
#include "ingot/kernels/cuda/runtime/sync.h"

namespace ingot::kernels::cuda {

namespace emulation {
/// Runs `work`, or where the stream is being captured keeps it.
void submit(void* stream, std::function<void()> work);
/// The same for the work of a kernel, which reaches the memory of the site's device.
void submit_kernel(const LaunchSite& site, std::function<void()> work);
/// Throws KernelError where an argument of a kernel holds a pointer to memory of the host or another device.
void check_argument(const LaunchSite& site, const void* argument, std::size_t bytes);
}  // namespace emulation

template <class... Parameters, class... Arguments>
void launch(const LaunchSite& site, void (*kernel)(Parameters...), Size3 grid, Size3 block,
            std::size_t shared_bytes, const Arguments&... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...));
  static_assert((sizeof(Parameters) + ... + 0) <= 32764, "more parameters than a kernel can have");
  const auto run = [&](Parameters... values) {
#if __has_builtin(__builtin_clear_padding)  // what lies between members may be an old pointer
    (__builtin_clear_padding(&values), ...);
    (emulation::check_argument(site, &values, sizeof(values)), ...);
#endif
    emulation::submit_kernel(site, [=, name = site.kernel] {
      emulation::run_grid(name, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes,
                          [&] { kernel(values...); });
    });
  };
  run(static_cast<Parameters>(arguments)...);
}

}  // namespace ingot::kernels::cuda
