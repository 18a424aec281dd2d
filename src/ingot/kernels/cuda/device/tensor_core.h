#pragma once

#include "ingot/kernels/cuda/hardware/pairs.h"
#include "ingot/kernels/cuda/hardware/tensor_core.h"

// Tiles in shared memory, and what tensor cores compute of them.
namespace ingot::kernels::cuda {

// How rows of `width` values lie in a tile in shared memory, so that the same 16 bytes of eight rows below
// one another, and what eight neighbouring threads copy, are in different banks.

/// Rows that are a multiple of 16 bytes apart, and an odd one.
template <int width>
struct PaddedRows {
  static constexpr int kPitch = width + 8;
  static constexpr int size(int rows) { return rows * kPitch; }
  __device__ __forceinline__ static int at(int row, int column) { return row * kPitch + column; }
};

/// Rows without gaps, whose eight values at a time change positions from row to row. Columns are multiples
/// of 8.
template <int width>
struct SwizzledRows {
  static_assert(width == 32 || width % 64 == 0);
  static constexpr int size(int rows) { return rows * width; }
  __device__ __forceinline__ static int at(int row, int column) {
    const int turn = width == 32 ? row / 2 % 4 : row % 8;
    return row * width + (column / 8 ^ turn) * 8;
  }
};

/// Rows [row, row + 16) at positions [depth, depth + 16). A tile has a row's positions contiguous, or,
/// transposed, the rows of a position.
template <bool transposed, class Rows, class T>
__device__ __forceinline__ LeftFragment left_of(const T* tile, int row, int depth) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  LeftFragment left;
  if constexpr (transposed) {
    load_transposed_matrices(left.values,
                             tile + Rows::at(depth + lane / 16 * 8 + lane % 8, row + lane / 8 % 2 * 8));
  } else {
    load_matrices(left.values, tile + Rows::at(row + lane % 16, depth + lane / 16 * 8));
  }
  return left;
}

/// Columns [column, column + 16), in two, at positions [depth, depth + 16). A tile has a column's positions
/// contiguous, or, transposed, the columns of a position.
template <bool transposed, class Rows, class T>
__device__ __forceinline__ void right_of(RightFragment (&right)[2], const T* tile, int column, int depth) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  unsigned loaded[4];
  if constexpr (transposed) {
    load_transposed_matrices(loaded, tile + Rows::at(depth + lane % 16, column + lane / 16 * 8));
  } else {
    load_matrices(loaded, tile + Rows::at(column + lane / 16 * 8 + lane % 8, depth + lane / 8 % 2 * 8));
  }
  right[0] = {{loaded[0], loaded[1]}};
  right[1] = {{loaded[2], loaded[3]}};
}

/// How a tile lies in shared memory: see left_of and right_of.
template <bool transposed_, class Rows_>
struct TileLayout {
  static constexpr bool kTransposed = transposed_;
  using Rows = Rows_;
};

/// sums[i][j] += rows 16i.. of `left`, from `row` on, times columns 8j.. of `right`, from `column` on, over
/// `depth` positions.
template <class T, int depth, class Left, class Right, int tall, int wide>
__device__ __forceinline__ void add_mma(SumFragment (&sums)[tall][wide], const T* left, int row,
                                        const T* right, int column) {
  INGOT_UNROLL
  for (int k = 0; k < depth; k += 16) {
    LeftFragment a[tall];
    INGOT_UNROLL
    for (int i = 0; i < tall; ++i)
      a[i] = left_of<Left::kTransposed, typename Left::Rows>(left, row + 16 * i, k);
    INGOT_UNROLL
    for (int j = 0; j < wide; j += 2) {
      RightFragment b[2];
      right_of<Right::kTransposed, typename Right::Rows>(b, right, column + 8 * j, k);
      INGOT_UNROLL
      for (int i = 0; i < tall; ++i) {
        multiply_add<T>(sums[i][j], a[i], b[0]);
        multiply_add<T>(sums[i][j + 1], a[i], b[1]);
      }
    }
  }
}

/// The same of padded tiles whose rows hold `depth` positions each: left · rightᵀ.
template <class T, int depth, int tall, int wide>
__device__ __forceinline__ void add_mma_of_rows(SumFragment (&sums)[tall][wide], const T* left, int row,
                                                const T* right) {
  using Layout = TileLayout<false, PaddedRows<depth>>;
  add_mma<T, depth, Layout, Layout>(sums, left, row, right, 0);
}

/// sums[i][j] += weights · columns 8j.. of `right`'s rows, as many as the weights have columns; `right` is
/// padded. Sums of one matmul are the left operand of the next as they lie, rounded to T.
template <class T, int tall, int wide, int terms>
__device__ __forceinline__ void add_weighted_rows(SumFragment (&sums)[tall][wide],
                                                  const SumFragment (&weights)[tall][terms], const T* right) {
  INGOT_UNROLL
  for (int k = 0; k < terms; k += 2) {
    LeftFragment a[tall];
    INGOT_UNROLL
    for (int i = 0; i < tall; ++i) {
      const float(&low)[4] = weights[i][k].values;
      const float(&high)[4] = weights[i][k + 1].values;
      a[i] = {{pair_of<T>(low[0], low[1]), pair_of<T>(low[2], low[3]), pair_of<T>(high[0], high[1]),
               pair_of<T>(high[2], high[3])}};
    }
    INGOT_UNROLL
    for (int j = 0; j < wide; j += 2) {
      RightFragment b[2];
      right_of<true, PaddedRows<8 * wide>>(b, right, 8 * j, 8 * k);
      INGOT_UNROLL
      for (int i = 0; i < tall; ++i) {
        multiply_add<T>(sums[i][j], a[i], b[0]);
        multiply_add<T>(sums[i][j + 1], a[i], b[1]);
      }
    }
  }
}

/// The position of a thread in its warp's fragments of sums.
struct FragmentPosition {
  int row = static_cast<int>(threadIdx.x) % kWarp / 4;         ///< and the row 8 below
  int column = static_cast<int>(threadIdx.x) % kWarp % 4 * 2;  ///< and its neighbour
};

/// Two neighbours in one access, rounded, or added to what is there.
template <class T>
__device__ __forceinline__ void store_pair(T* to, float first, float second, bool accumulate = false) {
  if (accumulate) {
    const Vector<T, 2> old = load_vector<2>(to);
    first += to_float(old.values[0]);
    second += to_float(old.values[1]);
  }
  store_vector(to, Vector<T, 2>{{from_float<T>(first), from_float<T>(second)}});
}

/// Calls f.template operator()<T>() with the device's type of bf16 or f16, the operands of these matmuls.
template <class F>
void dispatch_device_half(DType dtype, F&& f) {
  if (dtype == DType::bf16) return f.template operator()<bfloat_t>();
  f.template operator()<half_t>();
}

}  // namespace ingot::kernels::cuda
