#pragma once

#include <cmath>
#include <cstdint>

#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/rope.h"

// What the kernels that rotate heads have in common.
namespace ingot::kernels::cuda {

/// RopeAngles as a kernel takes them. A position outside of the table cannot throw there: it gives NaNs,
/// which show.
struct TokenAngles {
  const float *cos, *sin;
  const void* positions;  // or null
  std::int64_t position_strides[2];
  std::int64_t half, offset, table, rotated_heads;
  std::int64_t positions_i64;  // a flag, as wide as its neighbours: no padding within

  __device__ __forceinline__ std::int64_t position(std::int64_t b, std::int64_t s) const {
    if (positions == nullptr) return offset + s;
    const std::int64_t at = b * position_strides[0] + s * position_strides[1];
    return positions_i64 != 0 ? static_cast<const std::int64_t*>(positions)[at]
                              : static_cast<const std::int32_t*>(positions)[at];
  }
  __device__ __forceinline__ bool has(std::int64_t position) const {
    return position >= 0 && position < table;
  }
  /// Cosines and sines, negative for the way back, of `count` neighbouring pairs; 4 are an access.
  template <int count>
  __device__ __forceinline__ void load(std::int64_t position, std::int64_t first, bool inverse, float* to_cos,
                                       float* to_sin) const {
    constexpr int kAtOnce = count < 4 ? count : 4;
    const bool known = has(position);
    const std::int64_t at = (known ? position * half : 0) + first;
    INGOT_UNROLL
    for (int i = 0; i < count; i += kAtOnce) {
      const auto c = load_vector<kAtOnce>(cos + at + i), s = load_vector<kAtOnce>(sin + at + i);
      INGOT_UNROLL
      for (int v = 0; v < kAtOnce; ++v) {
        to_cos[i + v] = known ? c.values[v] : NAN;
        to_sin[i + v] = known ? (inverse ? -s.values[v] : s.values[v]) : NAN;
      }
    }
  }
};

/// A pair rotated. Its roundings are written out, so that a pair has the same bits in all kernels: to round
/// one product less, the compiler might choose either.
struct RotatedPair {
  float first, second;
};
__device__ __forceinline__ RotatedPair rotate_pair(float u, float v, float cos, float sin) {
  return {fmaf(u, cos, -(v * sin)), fmaf(v, cos, u * sin)};
}

inline TokenAngles token_angles(const RopeAngles& angles) {
  TokenAngles made{.cos = angles.cos.as<float>(),
                   .sin = angles.sin.as<float>(),
                   .positions = angles.positions.data,
                   .position_strides = {},
                   .half = angles.cos.dim(1),
                   .offset = angles.offset,
                   .table = angles.cos.dim(0),
                   .rotated_heads = angles.rotated_heads,
                   .positions_i64 = angles.positions.dtype == DType::i64 ? 1 : 0};
  for (int i = 0; angles.positions && i < 2; ++i) made.position_strides[i] = angles.positions.stride(i);
  return made;
}

/// Whether the table begins where vectors of 16 bytes may.
inline bool angles_in_vectors(const RopeAngles& angles) {
  return reinterpret_cast<std::uintptr_t>(angles.cos.data) % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(angles.sin.data) % 16 == 0;
}

/// Whether every head of x [B, S, H, D] does, with vectors of `vec` elements; an absent x does not matter.
inline bool heads_in_vectors(const View& x, std::int64_t vec) {
  return !x || (reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.stride(0) % vec == 0 &&
                x.stride(1) % vec == 0 && x.stride(2) % vec == 0);
}

}  // namespace ingot::kernels::cuda
