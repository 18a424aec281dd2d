#pragma once

#include <cstdint>

#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/kernel.h"

// What the recurrences that keep a matrix for each head have in common: selective_scan and delta_rule.
namespace ingot::kernels::cuda {

inline constexpr int kScanWarps = 8, kScanBlock = kScanWarps * kWarp;

/// Where the operands of one head of one sequence are, as the CPU's ScanHead has it.
struct ScanShape {
  std::int64_t steps, heads, groups, size, width;
  const std::int32_t* starts;

  __device__ std::int64_t step(std::int64_t head, std::int64_t t) const {
    return (head / heads * steps + t) * heads + head % heads;
  }
  __device__ std::int64_t keys(std::int64_t head, std::int64_t t) const {
    return ((head / heads * steps + t) * groups + head % heads * groups / heads) * width;
  }
  __device__ bool begins(std::int64_t head, std::int64_t t) const {
    return starts != nullptr && std::int64_t{starts[head / heads * steps + t]} == t;
  }
};

inline ScanShape scan_shape_of(const View& x, const View& keys, const View& starts) {
  return {x.dim(1), x.dim(2),    keys.dim(2),
          x.dim(3), keys.dim(3), starts ? starts.as<std::int32_t>() : nullptr};
}

/// Sums of the warps' parts [kScanWarps, width], in their order.
__device__ inline void add_scan_warps(const float* parts, std::int64_t width, float* to) {
  __syncthreads();
  for (std::int64_t n = threadIdx.x; n < width; n += kScanBlock) {
    float sum = 0;
    for (int warp = 0; warp < kScanWarps; ++warp) sum += parts[warp * width + n];
    to[n] = sum;
  }
  __syncthreads();
}

}  // namespace ingot::kernels::cuda
