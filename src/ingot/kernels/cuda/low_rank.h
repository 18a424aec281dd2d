#pragma once

namespace ingot::kernels::cuda {

void register_low_rank();  ///< of low_rank.cu

}  // namespace ingot::kernels::cuda
