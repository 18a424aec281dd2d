#pragma once

#include <functional>
#include <type_traits>

#include "ingot/core/stream.h"
#include "ingot/core/view.h"
#include "ingot/kernels/cuda/device_code.h"
#include "ingot/kernels/cuda/sync.h"
#if defined(__CUDACC__)
#include <cuda_runtime.h>
#else
#include "ingot/kernels/cuda/emulation/memory.h"
#endif

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

#if defined(__CUDACC__)

template <class... Parameters, class... Arguments>
void launch(const LaunchSite& site, void (*kernel)(Parameters...), Size3 grid, Size3 block,
            std::size_t shared_bytes, const Arguments&... arguments) {
  const auto check = [&](cudaError_t result) {
    if (result == cudaSuccess) return;
    cudaGetLastError();  // so that it does not show again at the next call
    throw_launch_failed(site, grid, block, shared_bytes, cudaGetErrorString(result));
  };
  check(cudaSetDevice(site.stream.device.index));
  // A block has 48 KiB, with what the kernel declares; the rest is given to those that ask.
  if (shared_bytes > 32 * 1024) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)));
  }
  const auto stream = static_cast<cudaStream_t>(site.stream.native);
  kernel<<<dim3(grid.x, grid.y, grid.z), dim3(block.x, block.y, block.z), shared_bytes, stream>>>(
      static_cast<Parameters>(arguments)...);
  check(cudaGetLastError());
  if (!waits_after_launch()) return;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status));
  if (status == cudaStreamCaptureStatusNone) check(cudaStreamSynchronize(stream));
}

#else

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

#endif

}  // namespace ingot::kernels::cuda
