#pragma once

#include "ingot/core/view.h"
#include "ingot/kernels/cuda/device/device_code.h"

namespace ingot::kernels::cuda {

/// Targets of rows, i64 or i32.
struct Targets {
  const void* data;
  std::int64_t stride;
  bool wide;

  explicit Targets(const View& view)
      : data(view.data), stride(view.stride(0)), wide(view.dtype == DType::i64) {}
  __device__ std::int64_t at(std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i * stride]
                : static_cast<const std::int32_t*>(data)[i * stride];
  }
};

}  // namespace ingot::kernels::cuda
