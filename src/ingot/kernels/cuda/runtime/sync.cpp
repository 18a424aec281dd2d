#include "ingot/kernels/cuda/runtime/sync.h"

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/kernels/cuda/runtime/driver.h"

namespace ingot::kernels::cuda {

bool waits_after_launch() {
  // Environment: INGOT_CUDA_SYNC=1 | waits after every kernel, so that an error names the kernel that made
  // it (slow)
  static const bool waits = env_flag("CUDA_SYNC").value_or(false);
  return waits;
}

void wait_after_launch(const char* kernel, Stream stream) {
  if (!waits_after_launch() || !driver::can_wait(stream.native)) return;
  try {
    driver::synchronize(stream.native);
  } catch (const Error& error) {
    throw KernelError(kernel, error.what());
  }
}

}  // namespace ingot::kernels::cuda
