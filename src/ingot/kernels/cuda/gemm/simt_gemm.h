#pragma once

#include "ingot/kernels/cuda/device/device_code.h"

// A matmul on plain f32 units, from tiles in shared memory: what is left where no library's applies.
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
  std::int64_t position_stride, depth_stride;
  bool along_depth;

  __device__ Strided(const T* x_, std::int64_t position_stride_, std::int64_t depth_stride_)
      : x(x_),
        position_stride(position_stride_),
        depth_stride(depth_stride_),
        along_depth(depth_stride_ <= position_stride_) {}
  __device__ float at(std::int64_t position, std::int64_t depth) const {
    return to_float(x[position * position_stride + depth * depth_stride]);
  }
};

/// tile[depth][position] = operand.at(position0 + position, depth0 + depth), 0 from `positions` or `depths`
/// on. Neighbouring threads read along the depth where operand.along_depth.
template <class Operand>
__device__ void load_tile(float* tile, const Operand& operand, std::int64_t position0, std::int64_t positions,
                          std::int64_t depth0, std::int64_t depths) {
  INGOT_UNROLL
  for (int i = 0; i < kTile * kDepth / kTileThreads; ++i) {
    const int element = i * kTileThreads + static_cast<int>(threadIdx.x);
    const int position = operand.along_depth ? element / kDepth : element % kTile;
    const int depth = operand.along_depth ? element % kDepth : element / kTile;
    const bool inside = position0 + position < positions && depth0 + depth < depths;
    tile[depth * kPitch + position] = inside ? operand.at(position0 + position, depth0 + depth) : 0.0F;
  }
}

/// The rows and columns of a matmul that a block, and in it a thread, computes.
struct TilePosition {
  std::int64_t row0, column0;
  int row, column;  // of the thread's kSide · kSide within the tile

  /// Tile blockIdx.x of those that cover `columns` columns and any number of rows.
  __device__ explicit TilePosition(std::int64_t columns) {
    const std::int64_t across = (columns + kTile - 1) / kTile;
    row0 = blockIdx.x / across * kTile;
    column0 = blockIdx.x % across * kTile;
    row = static_cast<int>(threadIdx.x) / (kTile / kSide) * kSide;
    column = static_cast<int>(threadIdx.x) % (kTile / kSide) * kSide;
  }
};

/// How many tiles cover a matmul.
constexpr std::int64_t tiles(std::int64_t rows, std::int64_t columns) {
  return (rows + kTile - 1) / kTile * ((columns + kTile - 1) / kTile);
}

/// sums[i][j] += Σ a.at(row + i, d) · b.at(column + j, d) over d from `begin` to `end`, in this order. Every
/// thread of a block calls it.
template <class A, class B>
__device__ void add_matmul(const A& a, std::int64_t rows, const B& b, std::int64_t columns,
                           const TilePosition& position, std::int64_t begin, std::int64_t end,
                           float (&sums)[kSide][kSide]) {
  INGOT_SHARED_ARRAY(float, a_tile, kDepth* kPitch);
  INGOT_SHARED_ARRAY(float, b_tile, kDepth* kPitch);
  for (std::int64_t depth0 = begin; depth0 < end; depth0 += kDepth) {
    __syncthreads();  // the tiles before have been read
    load_tile(a_tile, a, position.row0, rows, depth0, end);
    load_tile(b_tile, b, position.column0, columns, depth0, end);
    __syncthreads();
    INGOT_UNROLL
    for (int depth = 0; depth < kDepth; ++depth) {
      float left[kSide], right[kSide];
      INGOT_UNROLL
      for (int i = 0; i < kSide; ++i) {
        left[i] = a_tile[depth * kPitch + position.row + i];
        right[i] = b_tile[depth * kPitch + position.column + i];
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
__device__ __forceinline__ void for_results(const TilePosition& position, std::int64_t rows,
                                            std::int64_t columns, const float (&sums)[kSide][kSide], F f) {
  INGOT_UNROLL
  for (int i = 0; i < kSide; ++i) {
    INGOT_UNROLL
    for (int j = 0; j < kSide; ++j) {
      const std::int64_t row = position.row0 + position.row + i,
                         column = position.column0 + position.column + j;
      if (row < rows && column < columns) f(row, column, sums[i][j]);
    }
  }
}

}  // namespace ingot::kernels::cuda
