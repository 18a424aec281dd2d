#pragma once

#include <algorithm>
#include <initializer_list>

#include "ingot/core/view.h"
#include "ingot/kernels/cuda/device/tensor_core.h"

// A matmul on tensor cores, for operands of which 16 bytes at a time can be copied: what
// simt_gemm.h is for any. A block computes 128 x 128 sums with four warps, each 64 x 64 of them (so what
// a warp reads of shared memory serves four MMA instructions each), and goes through the depth in steps of
// 32, of which two are on their way while one is worked on.
namespace ingot::kernels::cuda {

inline constexpr int kTensorTile = 128, kTensorDepth = 32, kTensorStages = 3;
inline constexpr int kTensorThreads = 4 * kWarp;

/// A tile of one operand of a matmul, rows of the left or columns of the right ("positions") by a step of the
/// depth: a position's depth contiguous, or, transposed, the positions of a depth. What a thread copies of
/// it are the eight values from kColumn() on of kCopies rows, kApart rows apart.
template <class T, bool transposed>
struct TensorTile {
  static constexpr int kWidth = transposed ? kTensorTile : kTensorDepth, kAcross = kWidth / kVector<T>;
  static constexpr int kRows = transposed ? kTensorDepth : kTensorTile;
  static constexpr int kApart = kTensorThreads / kAcross, kCopies = kRows / kApart;
  using Type = T;
  using Rows = SwizzledRows<kWidth>;
  using Layout = TileLayout<transposed, Rows>;
  static constexpr int kSize = Rows::size(kRows);

  __device__ __forceinline__ static int column() {
    return static_cast<int>(threadIdx.x) % kAcross * kVector<T>;
  }
  __device__ __forceinline__ static int row(int copy = 0) {
    return static_cast<int>(threadIdx.x) / kAcross + copy * kApart;
  }
  /// Starts this thread's copy number `copy` to the tile, or to put zeros there.
  __device__ __forceinline__ static void put(T* tile, int copy, const T* from, bool inside) {
    copy_async(tile + Rows::at(row(copy), column()), from, inside);
  }
};

/// The positions and the depths that a matmul takes of its operands, from those that a block begins with on.
struct TensorRange {
  std::int64_t position0, positions, depth0, depths;
};

/// One operand of a matmul in memory. The address and `stride`, from position to position or, transposed,
/// from depth to depth, are multiples of 16 bytes, as is how far a row goes.
template <class T, bool transposed>
class TensorOperand : public TensorTile<T, transposed> {
 public:
  using Tile = TensorTile<T, transposed>;

  __device__ __forceinline__ TensorOperand(const T* data, std::int64_t stride, const TensorRange& range)
      : apart_(Tile::kApart * stride) {
    const std::int64_t row0 = (transposed ? range.depth0 : range.position0) + Tile::row(),
                       column0 = (transposed ? range.position0 : range.depth0) + Tile::column();
    at_ = data + row0 * stride + column0;
    rows_left_ = left((transposed ? range.depths : range.positions) - row0);
    columns_left_ = left((transposed ? range.positions : range.depths) - column0);
  }
  /// Starts to copy the next step of the depth.
  __device__ __forceinline__ void copy(T* tile) {
    const T* from = at_;
    INGOT_UNROLL
    for (int i = 0; i < Tile::kCopies; ++i, from += apart_)
      Tile::put(tile, i, from, columns_left_ > 0 && i * Tile::kApart < rows_left_);
    if constexpr (transposed) {
      at_ = from;
      rows_left_ -= kTensorDepth;
    } else {
      at_ += kTensorDepth;
      columns_left_ -= kTensorDepth;
    }
  }

 private:
  static_assert(!transposed || Tile::kCopies * Tile::kApart == kTensorDepth);
  __device__ __forceinline__ static int left(std::int64_t count) {
    constexpr std::int64_t kMost = 0x7fffffff;
    return static_cast<int>(count < 0 ? 0 : count < kMost ? count : kMost);
  }
  const T* at_;         // the thread's first copy of the next step
  std::int64_t apart_;  // how far it is to its next one
  int rows_left_, columns_left_;
};

/// Whether 16 bytes at a time can be copied of a tensor of a half type whose rows have these strides or
/// sizes.
inline bool in_vectors(const View& x, std::initializer_list<std::int64_t> strides) {
  constexpr std::int64_t kVectorOf = 8;
  if (x.dtype != DType::bf16 && x.dtype != DType::f16) return false;
  if (reinterpret_cast<std::uintptr_t>(x.data) % 16 != 0) return false;
  return std::ranges::all_of(strides, [](std::int64_t stride) { return stride % kVectorOf == 0; });
}

/// The sums of a warp.
using TensorSums = SumFragment[4][8];

/// Bytes of shared memory that add_mma needs.
template <class A, class B>
inline constexpr std::size_t kTensorMemory = 2 * kTensorStages*(A::kSize + B::kSize);

/// Where the sums of a warp are in the block's tile.
struct TensorPosition {
  int row = static_cast<int>(threadIdx.x) / kWarp % 2 * 64;
  int column = static_cast<int>(threadIdx.x) / kWarp / 2 * 64;
};

/// sums += a's rows times b's columns over `depth` positions; a and b copy tiles as TensorOperand does. Every
/// thread of the block calls it, once.
template <class A, class B>
__device__ __forceinline__ void add_mma(TensorSums& sums, A a, B b, std::int64_t depth) {
  using T = typename A::Type;
  constexpr int kStage = A::kSize + B::kSize;
  INGOT_DYNAMIC_SHARED(T, tiles);
  const TensorPosition position;
  const int steps = static_cast<int>((depth + kTensorDepth - 1) / kTensorDepth);
  const auto copy_step = [&](int step) {
    if (step < steps) {
      T* stage = tiles + step % kTensorStages * kStage;
      a.copy(stage);
      b.copy(stage + A::kSize);
    }
    commit_copies();  // also of nothing: groups are counted
  };
  for (int step = 0; step < kTensorStages - 1; ++step) copy_step(step);
  for (int step = 0; step < steps; ++step) {
    wait_copies<kTensorStages - 2>();
    __syncthreads();  // this step has arrived, and everybody is through with the one before
    copy_step(step + kTensorStages - 1);
    const T* stage = tiles + step % kTensorStages * kStage;
    add_mma<T, kTensorDepth, typename A::Layout, typename B::Layout>(sums, stage, position.row,
                                                                     stage + A::kSize, position.column);
  }
  wait_copies<0>();
}

/// f(row, column, sum, sum of the next column) for the block's sums, whose tile begins at (row0, column0),
/// where its rows and columns exist.
template <class F>
__device__ __forceinline__ void for_tensor_sums(const TensorSums& sums, std::int64_t row0, std::int64_t rows,
                                                std::int64_t column0, std::int64_t columns, F&& f) {
  const TensorPosition position;
  const FragmentPosition at;
  INGOT_UNROLL
  for (int i = 0; i < 8; ++i) {
    const std::int64_t row = row0 + position.row + at.row + 8 * i;
    if (row >= rows) continue;
    INGOT_UNROLL
    for (int j = 0; j < 8; ++j) {
      const std::int64_t column = column0 + position.column + 8 * j + at.column;
      const float* pair = sums[i / 2][j].values + i % 2 * 2;
      if (column < columns) f(row, column, pair[0], pair[1]);
    }
  }
}

/// The block's sums to c.
template <class T>
__device__ __forceinline__ void store_mma(const TensorSums& sums, T* c, std::int64_t stride,
                                          std::int64_t row0, std::int64_t rows, std::int64_t column0,
                                          std::int64_t columns, bool accumulate) {
  for_tensor_sums(sums, row0, rows, column0, columns,
                  [&](std::int64_t row, std::int64_t column, float first, float second) {
                    store_pair(c + row * stride + column, first, second, accumulate);
                  });
}

}  // namespace ingot::kernels::cuda
