#include "ingot/runtime/initialize.h"

#include <mutex>

#include "ingot/kernels/cpu/register.h"

namespace ingot {

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] { kernels::cpu::register_kernels(); });
}

}  // namespace ingot
