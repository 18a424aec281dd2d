#pragma once

#include "ingot/kernels/cuda/launch.h"

// Kernels that work on rows: the threads that share a row are a team, a warp for short rows and a block for
// long ones.
namespace ingot::kernels::cuda {

/// Sums and extremes over the lanes of a warp; the same bits in every lane.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  for (int apart = kWarp / 2; apart > 0; apart /= 2) value += __shfl_xor_sync(kAllLanes, value, apart);
  return value;
}
__device__ __forceinline__ float warp_max(float value) {
  for (int apart = kWarp / 2; apart > 0; apart /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, apart));
  return value;
}
template <class T>
__device__ __forceinline__ T warp_least(T value) {
  for (int apart = kWarp / 2; apart > 0; apart /= 2) {
    const T other = __shfl_xor_sync(kAllLanes, value, apart);
    value = other < value ? other : value;
  }
  return value;
}

/// `size` threads, a warp or a whole block of that size. Every thread of a team calls its functions.
template <int size>
struct Team {
  static_assert(size == kWarp || size % kWarp == 0);
  static constexpr int kThreads = size == kWarp ? 128 : size;  ///< of a block
  static constexpr int kTeams = kThreads / size;               ///< in a block

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % size; }
  /// The row that this team begins with, and how far it is to its next one.
  __device__ static std::int64_t first_row() {
    return std::int64_t{blockIdx.x} * kTeams + static_cast<int>(threadIdx.x) / size;
  }
  __device__ static std::int64_t row_step() { return std::int64_t{gridDim.x} * kTeams; }

  template <class T>
  __device__ static T sum(T value) {
    value = warp_sum(value);
    if constexpr (size > kWarp) {
      INGOT_SHARED_ARRAY(T, parts, size / kWarp);
      __syncthreads();  // somebody may still read what the call before left
      if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
      __syncthreads();
      value = parts[0];
      for (int i = 1; i < size / kWarp; ++i) value += parts[i];
    }
    return value;
  }

  __device__ static float max(float value) {
    value = warp_max(value);
    if constexpr (size > kWarp) {
      INGOT_SHARED_ARRAY(float, parts, size / kWarp);
      __syncthreads();
      if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
      __syncthreads();
      value = parts[0];
      for (int i = 1; i < size / kWarp; ++i) value = fmaxf(value, parts[i]);
    }
    return value;
  }
};

/// Calls f.template operator()<size>() with the team that suits rows of `width`.
template <class F>
void dispatch_team(std::int64_t width, F&& f) {
  if (width <= 1024) return f.template operator()<kWarp>();
  f.template operator()<512>();
}

/// Blocks for `rows` rows, one team each.
template <int size>
unsigned grid_of_rows(Device device, std::int64_t rows) {
  return grid_for(device, rows, Team<size>::kTeams, 32);
}

/// Calls f.template operator()<T, size>(grid, threads) for the rows of `x`: T is x's type, `size` that of the
/// team. Not called where there are none.
template <class F>
void for_rows(const char* kernel, Stream stream, const View& x, F&& f) {
  if (x.rows() == 0) return;
  dispatch_device_float(x.dtype, kernel, [&]<class T>() {
    dispatch_team(x.dim(-1), [&]<int size>() {
      f.template operator()<T, size>(Size3{grid_of_rows<size>(stream.device, x.rows())},
                                     Size3{Team<size>::kThreads});
    });
  });
}

/// y[j] (+)= Σ_p partials[p, j] in the order of p: the end of a sum that blocks began apart.
template <class T>
__global__ void sum_parts_kernel(const float* partials, int parts, std::int64_t n, std::int64_t stride, T* y,
                                 bool accumulate) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t j = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; j < n; j += step) {
    float sum = 0;
    for (int p = 0; p < parts; ++p) sum += partials[p * stride + j];
    store(y + j, sum, accumulate);
  }
}
template <class T>
void sum_parts(const LaunchSite& site, const float* partials, int parts, std::int64_t n, std::int64_t stride,
               T* y, bool accumulate) {
  if (n == 0) return;
  launch(site, sum_parts_kernel<T>, Size3{grid_for(site.stream.device, n, 128)}, Size3{128}, 0, partials,
         parts, n, stride, y, accumulate);
}

}  // namespace ingot::kernels::cuda
