#pragma once

namespace ingot {

/// Registers the backends of this build and their kernels. Call once before the first tensor operation;
/// further calls, from any thread, do nothing. INGOT_BACKEND limits what they use
/// (runtime/compute_backend.h).
void initialize();

}  // namespace ingot
