#include "ingot/kernels/cuda/register.h"

namespace ingot::kernels::cuda {

void register_libraries() {
  register_cublaslt();
#ifdef INGOT_HAS_CUDNN
  register_cudnn();
#endif
}

}  // namespace ingot::kernels::cuda
