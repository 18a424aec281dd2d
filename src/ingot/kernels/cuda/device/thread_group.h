#pragma once

#include "ingot/kernels/cuda/hardware/launch.h"

// Kernels that work on rows: the threads that share a row are a thread group, a warp for short rows and a
// block for long ones.
namespace ingot::kernels::cuda {

/// Combines `value` with those of the other lanes of its group of `lanes`, a power of two; `combine` must not
/// care for the order of its operands, and every lane gets the same bits.
template <int lanes, class T, class Combine>
__device__ __forceinline__ T combine_lanes(T value, Combine combine) {
  INGOT_UNROLL
  for (int apart = lanes / 2; apart > 0; apart /= 2)
    value = combine(value, __shfl_xor_sync(kAllLanes, value, apart));
  return value;
}

/// Sums and extremes over a group of lanes, and over a warp; the same bits in every lane.
template <int lanes, class T>
__device__ __forceinline__ T lanes_sum(T value) {
  return combine_lanes<lanes>(value, [](T a, T b) { return static_cast<T>(a + b); });
}
template <int lanes>
__device__ __forceinline__ float lanes_max(float value) {
  return combine_lanes<lanes>(value, [](float a, float b) { return fmaxf(a, b); });
}
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  return lanes_sum<kWarp>(value);
}
__device__ __forceinline__ float warp_max(float value) { return lanes_max<kWarp>(value); }
template <class T>
__device__ __forceinline__ T warp_least(T value) {
  return combine_lanes<kWarp>(value, [](T a, T b) { return b < a ? b : a; });
}

/// Sums each of the first `left` values over groups of `lanes` lanes that are `apart` from each other, and
/// shares the sums out: a lane has the first left / lanes, or one that others have too. Halves of the lanes
/// send each other the half of the values that the other goes on with. A sum's bits do not depend on how many
/// there are.
template <int lanes, int apart, int left>
__device__ __forceinline__ void share_sums(float* values) {
  if constexpr (lanes > 1) {
    constexpr int kDistance = lanes / 2 * apart, kHalf = left > 1 ? left / 2 : 1;
    if constexpr (left > 1) {
      const bool upper = (static_cast<int>(threadIdx.x) & kDistance) != 0;
      INGOT_UNROLL
      for (int i = 0; i < kHalf; ++i) {
        const float sent = upper ? values[i] : values[i + kHalf];
        const float kept = upper ? values[i + kHalf] : values[i];
        values[i] = kept + __shfl_xor_sync(kAllLanes, sent, kDistance);
      }
    } else {
      values[0] += __shfl_xor_sync(kAllLanes, values[0], kDistance);
    }
    share_sums<lanes / 2, apart, kHalf>(values);
  }
}

/// `size` threads: a part of a warp, a warp, or a whole block of that size. Every thread of a thread group
/// calls its functions; where thread groups are parts of a warp, every thread of the warp does.
template <int size>
struct ThreadGroup {
  static_assert((size & (size - 1)) == 0);
  static constexpr int kThreads = size <= kWarp ? 128 : size;  ///< of a block
  static constexpr int kThreadGroups = kThreads / size;        ///< in a block
  static constexpr int kWarps = size <= kWarp ? 1 : size / kWarp;

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % size; }
  /// Which of the block's thread groups this is.
  __device__ static int number() { return static_cast<int>(threadIdx.x) / size; }
  /// The row that this thread group begins with, and how far it is to its next one.
  __device__ static std::int64_t first_row() { return std::int64_t{blockIdx.x} * kThreadGroups + number(); }
  __device__ static std::int64_t row_step() { return std::int64_t{gridDim.x} * kThreadGroups; }

  template <class T>
  __device__ static T sum(T value) {
    return over_group(value, [](T a, T b) { return static_cast<T>(a + b); });
  }
  __device__ static float max(float value) {
    return over_group(value, [](float a, float b) { return fmaxf(a, b); });
  }

 private:
  template <class T, class Combine>
  __device__ static T over_group(T value, Combine combine) {
    value = combine_lanes < size < kWarp ? size : kWarp > (value, combine);
    if constexpr (size > kWarp) {
      INGOT_SHARED_ARRAY(T, parts, kWarps);
      __syncthreads();  // somebody may still read what the call before left
      if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
      __syncthreads();
      value = combine_lanes<kWarps>(parts[threadIdx.x % kWarps], combine);
    }
    return value;
  }
};

/// Calls f.template operator()<size>() with the thread group that suits rows of `width`.
template <class F>
void dispatch_thread_group(std::int64_t width, F&& f) {
  if (width <= 1024) return f.template operator()<kWarp>();
  f.template operator()<512>();
}

/// Blocks for `rows` rows, one thread group each.
template <int size>
unsigned grid_of_rows(Device device, std::int64_t rows) {
  return grid_for(device, rows, ThreadGroup<size>::kThreadGroups, 32);
}

/// Calls f.template operator()<T, size>(grid, threads) for the rows of `x`: T is x's type, `size` that of the
/// thread group. Not called where there are none.
template <class F>
void for_rows(const char* kernel, Stream stream, const View& x, F&& f) {
  if (x.rows() == 0) return;
  dispatch_device_float(x.dtype, kernel, [&]<class T>() {
    dispatch_thread_group(x.dim(-1), [&]<int size>() {
      f.template operator()<T, size>(Size3{grid_of_rows<size>(stream.device, x.rows())},
                                     Size3{ThreadGroup<size>::kThreads});
    });
  });
}

inline constexpr int kPartLanes = 16;

/// y[j] (+)= Σ_p partials[p, j]: the end of a sum that blocks began apart. threadIdx.y takes every
/// blockDim.y-th part, so that few columns do not wait for one load after the other; then these are added in
/// their order.
template <class T>
__global__ void sum_parts_kernel(const float* partials, int parts, std::int64_t n, std::int64_t stride, T* y,
                                 bool accumulate) {
  INGOT_SHARED_ARRAY(float, sums, kPartLanes* kWarp);
  const int lanes = static_cast<int>(blockDim.y), lane = static_cast<int>(threadIdx.y);
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t begin = std::int64_t{blockIdx.x} * blockDim.x; begin < n; begin += step) {
    const std::int64_t j = begin + threadIdx.x;
    float sum = 0;
    for (int p = lane; j < n && p < parts; p += lanes) sum += partials[p * stride + j];
    if (lanes > 1) {
      __syncthreads();  // somebody may still read the sums before
      sums[lane * kWarp + static_cast<int>(threadIdx.x)] = sum;
      __syncthreads();
      for (int other = 1; lane == 0 && other < lanes; ++other)
        sum += sums[other * kWarp + static_cast<int>(threadIdx.x)];
    }
    if (lane == 0 && j < n) store(y + j, sum, accumulate);
  }
}
template <class T>
void sum_parts(const LaunchSite& site, const float* partials, int parts, std::int64_t n, std::int64_t stride,
               T* y, bool accumulate) {
  if (n == 0) return;
  const bool few_columns = n < 65536 && parts > kPartLanes;
  const Size3 block = few_columns ? Size3{kWarp, kPartLanes} : Size3{128};
  launch(site, sum_parts_kernel<T>, Size3{grid_for(site.stream.device, n, block.x)}, block, 0, partials,
         parts, n, stride, y, accumulate);
}

}  // namespace ingot::kernels::cuda
