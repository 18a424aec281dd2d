#include "ingot/runtime/initialize.h"

#include <mutex>

#include "ingot/base/env.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/runtime/compute_backend.h"

// For each backend of this build besides the CPU, kernels/NAME defines kernels::NAME::register_backends(). It
// adds the devices that it finds and their kernels, and explains to the registry why there are none.
#define INGOT_BACKEND(name)        \
  namespace ingot::kernels::name { \
  void register_backends();        \
  }
#include "ingot_backends.inc"
#undef INGOT_BACKEND

namespace ingot {

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    kernels::cpu::register_kernels();
#define INGOT_BACKEND(name) kernels::name::register_backends();
#include "ingot_backends.inc"
#undef INGOT_BACKEND
    // Environment: INGOT_BACKEND | the most that kernels may use of a processor: `cpu`, `cpu-avx2`,
    // `cpu-vnni`, `cpu-avx512`, `cpu-amx` (`ingot devices` lists them)
    if (const auto chosen = env_setting("BACKEND")) set_compute_backend(chosen->value);
  });
}

}  // namespace ingot
