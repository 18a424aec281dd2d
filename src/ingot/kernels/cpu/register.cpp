#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {

// Order is preference: launch() takes the first implementation that accepts its arguments.
void register_kernels() {
  register_conv_simd();
  register_copy_simd();
  register_norm_simd();

  register_conv_reference();
  register_copy_reference();
  register_norm_reference();
}

}  // namespace ingot::kernels::cpu
