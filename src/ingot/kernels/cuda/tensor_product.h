#pragma once

#include <algorithm>
#include <initializer_list>

#include "ingot/core/view.h"
#include "ingot/kernels/cuda/tensor_core.h"

// A matrix product on tensor cores, for operands of which 16 bytes at a time can be copied: what
// tiled_product.h is for any. A block computes 128 x 128 sums with eight warps, each 32 x 64 of them, and
// goes through the depth in steps of 32, of which two are on their way while one is worked on.
namespace ingot::kernels::cuda {

inline constexpr int kTensorTile = 128, kTensorDepth = 32, kTensorStages = 3;
inline constexpr int kTensorThreads = 8 * kWarp;

/// A tile of one side of a product, rows of the left or columns of the right ("places") by a step of the
/// depth: a place's depth side by side, or, turned, the places of a depth.
template <class T, bool turned>
struct TensorTile {
  using Type = T;
  using Layout = TileLayout<turned, pitch_of(turned ? kTensorTile : kTensorDepth)>;
  static constexpr int kRows = turned ? kTensorDepth : kTensorTile;
  static constexpr int kSize = kRows * Layout::kPitch;

  /// Starts to copy 128 places from `place0` on and a step of the depth to a tile: find(place, depth) is
  /// where eight values begin, a multiple of 16 bytes, or null for zeros, which come from `places` and
  /// `depths` on, too. `any`: an address that may be read.
  template <class Find>
  __device__ static __forceinline__ void copy(T* tile, std::int64_t place0, std::int64_t places,
                                              std::int64_t depth0, std::int64_t depths, const T* any,
                                              Find&& find) {
    constexpr int kAcross = (turned ? kTensorTile : kTensorDepth) / kPack<T>,
                  kApart = kTensorThreads / kAcross;
    const int column = static_cast<int>(threadIdx.x) % kAcross * kPack<T>,
              first = static_cast<int>(threadIdx.x) / kAcross;
    INGOT_UNROLL
    for (int apart = 0; apart < kRows; apart += kApart) {
      const int row = first + apart;
      const std::int64_t place = place0 + (turned ? column : row), depth = depth0 + (turned ? row : column);
      const T* from = place < places && depth < depths ? find(place, depth) : nullptr;
      copy_async(tile + row * Layout::kPitch + column, from != nullptr ? from : any, from != nullptr);
    }
  }
};

/// One side of a product in memory. The address and `stride`, from place to place or, turned, from depth to
/// depth, are multiples of 16 bytes, as is how far a row goes.
template <class T, bool turned>
struct TensorOperand : TensorTile<T, turned> {
  const T* data;
  std::int64_t stride;

  __device__ __forceinline__ TensorOperand(const T* data_, std::int64_t stride_)
      : data(data_), stride(stride_) {}
  __device__ __forceinline__ void copy(T* tile, std::int64_t place0, std::int64_t places, std::int64_t depth0,
                                       std::int64_t depths) const {
    TensorTile<T, turned>::copy(
        tile, place0, places, depth0, depths, data, [this](std::int64_t place, std::int64_t depth) {
          return turned ? data + depth * stride + place : data + place * stride + depth;
        });
  }
};

/// Whether 16 bytes at a time can be copied of a tensor of a half type whose rows have these strides or
/// sizes.
inline bool in_packs(const View& x, std::initializer_list<std::int64_t> strides) {
  constexpr std::int64_t kPackOf = 8;
  if (x.dtype != DType::bf16 && x.dtype != DType::f16) return false;
  if (reinterpret_cast<std::uintptr_t>(x.data) % 16 != 0) return false;
  return std::ranges::all_of(strides, [](std::int64_t stride) { return stride % kPackOf == 0; });
}

/// The sums of a warp.
using TensorSums = SumFragment[2][8];

/// Bytes of shared memory that add_tensor_products needs.
template <class A, class B>
inline constexpr std::size_t kTensorMemory = 2 * kTensorStages*(A::kSize + B::kSize);

/// Where the sums of a warp are in the block's tile.
struct TensorPlace {
  int row = static_cast<int>(threadIdx.x) / kWarp % 4 * 32;
  int column = static_cast<int>(threadIdx.x) / kWarp / 4 * 64;
};

/// sums += a's rows row0.. times b's columns column0.., over the depth from `begin` to `end`; a and b copy
/// tiles as TensorOperand does. Every thread of the block calls it, once.
template <class A, class B>
__device__ __forceinline__ void add_tensor_products(TensorSums& sums, const A& a, std::int64_t row0,
                                                    std::int64_t rows, const B& b, std::int64_t column0,
                                                    std::int64_t columns, std::int64_t begin,
                                                    std::int64_t end) {
  using T = typename A::Type;
  constexpr int kStage = A::kSize + B::kSize;
  INGOT_DYNAMIC_SHARED(T, tiles);
  const TensorPlace place;
  const int steps = static_cast<int>((end - begin + kTensorDepth - 1) / kTensorDepth);
  const auto copy_step = [&](int step) {
    if (step < steps) {
      T* stage = tiles + step % kTensorStages * kStage;
      a.copy(stage, row0, rows, begin + std::int64_t{step} * kTensorDepth, end);
      b.copy(stage + A::kSize, column0, columns, begin + std::int64_t{step} * kTensorDepth, end);
    }
    commit_copies();  // also of nothing: groups are counted
  };
  for (int step = 0; step < kTensorStages - 1; ++step) copy_step(step);
  for (int step = 0; step < steps; ++step) {
    wait_copies<kTensorStages - 2>();
    __syncthreads();  // this step has arrived, and everybody is through with the one before
    copy_step(step + kTensorStages - 1);
    const T* stage = tiles + step % kTensorStages * kStage;
    add_product<T, kTensorDepth, typename A::Layout, typename B::Layout>(sums, stage, place.row,
                                                                         stage + A::kSize, place.column);
  }
  wait_copies<0>();
}

/// f(row, column, sum, sum of the next column) for the block's sums, whose tile begins at (row0, column0),
/// where its rows and columns exist.
template <class F>
__device__ __forceinline__ void for_tensor_sums(const TensorSums& sums, std::int64_t row0, std::int64_t rows,
                                                std::int64_t column0, std::int64_t columns, F&& f) {
  const TensorPlace place;
  const FragmentPlace at;
  INGOT_UNROLL
  for (int i = 0; i < 4; ++i) {
    const std::int64_t row = row0 + place.row + at.row + 8 * i;
    if (row >= rows) continue;
    INGOT_UNROLL
    for (int j = 0; j < 8; ++j) {
      const std::int64_t column = column0 + place.column + 8 * j + at.column;
      const float* pair = sums[i / 2][j].values + i % 2 * 2;
      if (column < columns) f(row, column, pair[0], pair[1]);
    }
  }
}

/// The block's sums to c.
template <class T>
__device__ __forceinline__ void store_tensor_products(const TensorSums& sums, T* c, std::int64_t stride,
                                                      std::int64_t row0, std::int64_t rows,
                                                      std::int64_t column0, std::int64_t columns,
                                                      bool accumulate) {
  for_tensor_sums(sums, row0, rows, column0, columns,
                  [&](std::int64_t row, std::int64_t column, float first, float second) {
                    store_pair(c + row * stride + column, first, second, accumulate);
                  });
}

}  // namespace ingot::kernels::cuda
