#include "ingot/runtime/initialize.h"

#include <mutex>

#include "ingot/base/env.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/cpu/register.h"
#if defined(INGOT_HAS_KERNELS_CUDA)
#include "ingot/core/device_config.h"
#include "ingot/kernels/cuda/register.h"
#endif
#include "ingot/runtime/compute_backend.h"

namespace ingot {

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    kernels::cpu::register_kernels();
#if defined(INGOT_HAS_KERNELS_CUDA)
    expect_gpu();
    BackendRegistry::instance().explain_missing_cuda(kernels::cuda::register_backends());
#endif
    if (const auto chosen = env_setting("BACKEND")) set_compute_backend(chosen->value);
  });
}

}  // namespace ingot
