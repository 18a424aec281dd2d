#pragma once

#include "ingot/kernels/cuda/device_code.h"

// A matrix product on plain f32 units, from tiles in shared memory: what is left where no library's applies.
namespace ingot::kernels::cuda {

inline constexpr int kTile = 64;   // rows and columns that a block computes
inline constexpr int kDepth = 16;  // of what is summed over at a time, in shared memory
inline constexpr int kTileThreads = 256;
inline constexpr int kSide = 4;               // rows and columns that a thread computes
inline constexpr int kPitch = kTile + kSide;  // of a row of shared memory: apart from the banks of the next

/// An operand that is a matrix of any strides.
template <class T>
struct Strided {
  const T* x;
  std::int64_t place_stride, depth_stride;
  bool along_depth;

  __device__ Strided(const T* x_, std::int64_t place_stride_, std::int64_t depth_stride_)
      : x(x_),
        place_stride(place_stride_),
        depth_stride(depth_stride_),
        along_depth(depth_stride_ <= place_stride_) {}
  __device__ float at(std::int64_t place, std::int64_t depth) const {
    return to_float(x[place * place_stride + depth * depth_stride]);
  }
};

/// tile[depth][place] = operand.at(place0 + place, depth0 + depth), 0 from `places` or `depths` on.
/// Neighbouring threads read along the depth where operand.along_depth.
template <class Operand>
__device__ void load_tile(float* tile, const Operand& operand, std::int64_t place0, std::int64_t places,
                          std::int64_t depth0, std::int64_t depths) {
  INGOT_UNROLL
  for (int i = 0; i < kTile * kDepth / kTileThreads; ++i) {
    const int element = i * kTileThreads + static_cast<int>(threadIdx.x);
    const int place = operand.along_depth ? element / kDepth : element % kTile;
    const int depth = operand.along_depth ? element % kDepth : element / kTile;
    const bool inside = place0 + place < places && depth0 + depth < depths;
    tile[depth * kPitch + place] = inside ? operand.at(place0 + place, depth0 + depth) : 0.0F;
  }
}

/// The rows and columns of a product that a block, and in it a thread, computes.
struct TilePlace {
  std::int64_t row0, column0;
  int row, column;  // of the thread's kSide · kSide within the tile

  /// Tile blockIdx.x of those that cover `columns` columns and any number of rows.
  __device__ explicit TilePlace(std::int64_t columns) {
    const std::int64_t across = (columns + kTile - 1) / kTile;
    row0 = blockIdx.x / across * kTile;
    column0 = blockIdx.x % across * kTile;
    row = static_cast<int>(threadIdx.x) / (kTile / kSide) * kSide;
    column = static_cast<int>(threadIdx.x) % (kTile / kSide) * kSide;
  }
};

/// How many tiles cover a product.
constexpr std::int64_t tiles(std::int64_t rows, std::int64_t columns) {
  return (rows + kTile - 1) / kTile * ((columns + kTile - 1) / kTile);
}

/// sums[i][j] += Σ a.at(row + i, d) · b.at(column + j, d) over d from `begin` to `end`, in this order. Every
/// thread of a block calls it.
template <class A, class B>
__device__ void add_products(const A& a, std::int64_t rows, const B& b, std::int64_t columns,
                             const TilePlace& place, std::int64_t begin, std::int64_t end,
                             float (&sums)[kSide][kSide]) {
  INGOT_SHARED_ARRAY(float, a_tile, kDepth* kPitch);
  INGOT_SHARED_ARRAY(float, b_tile, kDepth* kPitch);
  for (std::int64_t depth0 = begin; depth0 < end; depth0 += kDepth) {
    __syncthreads();  // the tiles before have been read
    load_tile(a_tile, a, place.row0, rows, depth0, end);
    load_tile(b_tile, b, place.column0, columns, depth0, end);
    __syncthreads();
    INGOT_UNROLL
    for (int depth = 0; depth < kDepth; ++depth) {
      float left[kSide], right[kSide];
      INGOT_UNROLL
      for (int i = 0; i < kSide; ++i) {
        left[i] = a_tile[depth * kPitch + place.row + i];
        right[i] = b_tile[depth * kPitch + place.column + i];
      }
      INGOT_UNROLL
      for (int i = 0; i < kSide; ++i) {
        INGOT_UNROLL
        for (int j = 0; j < kSide; ++j) sums[i][j] += left[i] * right[j];
      }
    }
  }
}

/// f(row, column, sum) for each of the thread's results that exists.
template <class F>
__device__ __forceinline__ void for_results(const TilePlace& place, std::int64_t rows, std::int64_t columns,
                                            const float (&sums)[kSide][kSide], F f) {
  INGOT_UNROLL
  for (int i = 0; i < kSide; ++i) {
    INGOT_UNROLL
    for (int j = 0; j < kSide; ++j) {
      const std::int64_t row = place.row0 + place.row + i, column = place.column0 + place.column + j;
      if (row < rows && column < columns) f(row, column, sums[i][j]);
    }
  }
}

}  // namespace ingot::kernels::cuda
