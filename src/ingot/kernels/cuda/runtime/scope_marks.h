#pragma once

namespace ingot::kernels::cuda {

/// Makes scopes NVTX ranges where Nsight or another tool of the kind runs this process, or INGOT_NVTX=1 asks
/// for them. Does nothing in a build without NVTX's headers.
void mark_scopes_for_profilers();

}  // namespace ingot::kernels::cuda
