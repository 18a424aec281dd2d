#pragma once

#include "ingot/core/stream.h"

namespace ingot::kernels::cuda {

/// INGOT_CUDA_SYNC: wait after every kernel, so that an error names the one at fault.
bool waits_after_launch();
/// Waits there, where that is on and the stream does not record. KernelError, which names the kernel, where
/// its work failed.
void wait_after_launch(const char* kernel, Stream stream);

}  // namespace ingot::kernels::cuda
