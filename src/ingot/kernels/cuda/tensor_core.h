#pragma once

#include "ingot/kernels/cuda/device_code.h"

// Matmuls on tensor cores, for GPUs of compute capability 8.0 and newer: a warp multiplies 16 x 16 by 16 x
// 8 values of 16 bits into sums in f32. Which lane holds what is laid down by PTX (mma.m16n8k16, ldmatrix).
// With g = lane / 4 and t = lane % 4, "positions" are the pairs of neighbours at 2t and 2t + 8 of the depth.
namespace ingot::kernels::cuda {

/// 16 rows and a depth of 16, two values to a register: rows g and g + 8 at position 2t, then both at 2t + 8.
struct LeftFragment {
  unsigned values[4];
};
/// A depth of 16 and 8 columns: column g at positions 2t and 2t + 8.
struct RightFragment {
  unsigned values[2];
};
/// 16 rows and 8 columns: row g, columns 2t and 2t + 1; then the same of row g + 8.
struct SumFragment {
  float values[4] = {};
};

}  // namespace ingot::kernels::cuda

#if !defined(__CUDACC__)
#include "ingot/kernels/cuda/emulation/tensor_core.h"
#else
namespace ingot::kernels::cuda {

/// sums += left · right
template <class T>
__device__ __forceinline__ void multiply_add(SumFragment& sums, const LeftFragment& left,
                                             const RightFragment& right) {
  float(&c)[4] = sums.values;
  const unsigned(&a)[4] = left.values;
  const unsigned(&b)[2] = right.values;
  if constexpr (std::is_same_v<T, bfloat_t>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

/// sums += left · right in int8, for a depth of 16, four values to a register: the left's positions 4t to 4t
/// + 3 in row g and in row g + 8, the right's in column g. The sums lie as in SumFragment.
__device__ __forceinline__ void multiply_add_int8(int (&sums)[4], unsigned left, unsigned left8,
                                                  unsigned right) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(left), "r"(left8), "r"(right));
}

/// Four matrices of 8 x 8 from shared memory: lane 8m + r says where row r of matrix m begins, a multiple of
/// 16 bytes; matrix m's row g, columns 2t and 2t + 1 come to m[lane].
template <class T>
__device__ __forceinline__ void load_matrices(unsigned (&m)[4], const T* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
/// The same of the transposed matrices: rows 2t and 2t + 1 of column g.
template <class T>
__device__ __forceinline__ void load_transposed_matrices(unsigned (&m)[4], const T* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}

/// Two values in a register, the first in its low half.
template <class T>
__device__ __forceinline__ unsigned pair_of(float first, float second) {
  if constexpr (std::is_same_v<T, bfloat_t>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return reinterpret_cast<const unsigned&>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(first, second);
    return reinterpret_cast<const unsigned&>(pair);
  }
}

/// Starts to copy 16 bytes of device memory to shared memory, or zeros where `inside` does not hold, of which
/// nothing is read; both addresses are multiples of 16 bytes.
template <class T>
__device__ __forceinline__ void copy_async(T* to, const T* from, bool inside) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(address), "l"(from), "r"(inside ? 16 : 0)
               : "memory");
}
/// The same of 4 bytes.
template <class T>
__device__ __forceinline__ void copy_word_async(T* to, const T* from, bool inside) {
  static_assert(sizeof(T) == 4);
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :
               : "r"(address), "l"(from), "r"(inside ? 4 : 0)
               : "memory");
}
/// Ends a group of copies; they arrive together.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `left` of this thread's groups are under way. What other threads copied is there after
/// the next barrier.
template <int left>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(left) : "memory");
}

}  // namespace ingot::kernels::cuda
#endif

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
