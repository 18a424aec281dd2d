#pragma once

#include "ingot/kernels/cuda/device/row_vectors.h"

namespace ingot::kernels::cuda {

/// The gradient of an element through an RMS norm, its roundings written out as rotate_pair's are.
__device__ __forceinline__ float rms_gradient(float rstd, float weight, float grad, float normalized,
                                              float dot) {
  return rstd * fmaf(weight, grad, -(normalized * dot));
}

/// Sums over the rows of a block, one for each column, `count` of each: where rows are held, in the registers
/// of the thread that has the column in every row, else in the block's part of the scratch, which no other
/// block touches.
template <class Config, int count>
class ColumnSums {
 public:
  using ThreadGroup = typename Config::ThreadGroup;

  __device__ __forceinline__ void add(float* part, std::int64_t d, bool first, int batch, int p, int v,
                                      const float (&values)[count]) {
    INGOT_UNROLL
    for (int k = 0; k < count; ++k) {
      if constexpr (Config::kHeld) {
        sums_[k][p][v] += values[k];
      } else {
        const auto at = Config::position(batch, p) + v;
        if (part != nullptr && at < d) part[k * d + at] = first ? values[k] : part[k * d + at] + values[k];
      }
    }
  }

  /// Writes what the block's thread groups have summed, added in their order.
  __device__ __forceinline__ void finish(float* part, int d) const {
    if constexpr (!Config::kHeld) return;
    if constexpr (ThreadGroup::kThreadGroups == 1) {
      each_vector(d, [&](int k, int p, int v, int at) {
        store_vector(part + k * d + at, Vector<float, 4>{sums_[k][p][v], sums_[k][p][v + 1],
                                                         sums_[k][p][v + 2], sums_[k][p][v + 3]});
      });
    } else {
      INGOT_DYNAMIC_SHARED(float, total);
      for (int group = 0; group < ThreadGroup::kThreadGroups; ++group) {
        if (ThreadGroup::number() == group) {
          each_vector(d, [&](int k, int p, int v, int at) {
            INGOT_UNROLL
            for (int i = 0; i < 4; ++i) {
              float& sum = total[k * d + at + i];
              sum = group == 0 ? sums_[k][p][v + i] : sum + sums_[k][p][v + i];
            }
          });
        }
        __syncthreads();
      }
      for (int i = static_cast<int>(threadIdx.x); i < count * d; i += ThreadGroup::kThreads)
        part[i] = total[i];
    }
  }

 private:
  /// f(which sum, vector, its element, column) for every fourth column of this thread.
  template <class F>
  __device__ __forceinline__ void each_vector(int d, F&& f) const {
    INGOT_UNROLL
    for (int k = 0; k < count; ++k) {
      INGOT_UNROLL
      for (int p = 0; p < Config::kVectors; ++p) {
        INGOT_UNROLL
        for (int v = 0; v < Config::kVec; v += 4)
          if (Config::position(0, p) < d) f(k, p, v, static_cast<int>(Config::position(0, p)) + v);
      }
    }
  }

  float sums_[Config::kHeld ? count : 1][Config::kVectors][Config::kVec] = {};
};

}  // namespace ingot::kernels::cuda
