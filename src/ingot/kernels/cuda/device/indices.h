#pragma once

#include "ingot/kernels/cuda/device/device_code.h"

namespace ingot::kernels::cuda {

/// Calls f.template operator()<I>() with the type of indices.
template <class F>
void dispatch_indices(DType dtype, F&& f) {
  if (dtype == DType::i64) return f.template operator()<std::int64_t>();
  f.template operator()<std::int32_t>();
}

__device__ __forceinline__ bool is_row(std::int64_t id, std::int64_t rows) { return id >= 0 && id < rows; }

}  // namespace ingot::kernels::cuda
