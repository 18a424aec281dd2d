#pragma once

#include "ingot/kernels/cuda/device/device_code.h"
#include "ingot/kernels/cuda/runtime/launch_site.h"
#include "ingot/kernels/cuda/runtime/sync.h"

namespace ingot::kernels::cuda {

/// Starts a kernel on the site's stream. KernelError where the driver refuses.
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

}  // namespace ingot::kernels::cuda
