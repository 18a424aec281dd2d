#pragma once

#include "ingot/kernels/cuda/attention_parts.h"
#include "ingot/kernels/cuda/tensor_core.h"

// Attention on tensor cores, for f16 and bf16: the tiles, the running softmax and the recomputation of
// FlashAttention-2 (Dao 2023). A block has four warps, each with rows of its own of the block's tile
// (queries, or keys for the gradients of keys and values), and walks over the other side in steps. What the
// first product of a step reads is copied while the step before is worked on, and the rest while that first
// product runs: so it has two places in shared memory, the rest one, and a block needs less than the 99 KiB
// that every card has. Scores never leave the registers, where they are the left side of the next product as
// they lie.
namespace ingot::kernels::cuda {

inline constexpr int kAttentionThreads = 4 * kWarp;
inline constexpr float kLog2E = 1.44269504F;

/// Values of the shared tile of `rows` rows.
template <int width>
constexpr int tile_size(int rows) {
  return PaddedRows<width>::size(rows);
}

/// Bytes of shared memory for `rows` rows of the block's own and steps of `step` rows.
template <class T, int width, int rows, int step>
constexpr std::size_t attention_memory() {
  constexpr std::size_t kBytes = sizeof(T) * tile_size<width>(rows + 3 * step);
  static_assert(kBytes < 99 * 1024 - 2048);  // some is declared apart
  return kBytes;
}

/// Starts to copy rows [begin, begin + rows) of a head to a tile; zeros beyond `length` and the head's
/// `size`, a multiple of 8.
template <int rows, int width, class T>
__device__ __forceinline__ void copy_rows(T* tile, const Heads<const T>& from, std::int64_t b,
                                          std::int64_t begin, std::int64_t h, std::int64_t length,
                                          std::int64_t size) {
  constexpr int kPacks = width / kPack<T>, kApart = kAttentionThreads / kPacks;
  const int first = static_cast<int>(threadIdx.x) / kPacks,
            column = static_cast<int>(threadIdx.x) % kPacks * kPack<T>;
  const T* at = from.row(b, begin + first, h) + column;
  INGOT_UNROLL
  for (int apart = 0; apart < rows; apart += kApart, at += kApart * from.strides[1]) {
    const bool inside = begin + first + apart < length && column < size;
    copy_async(tile + PaddedRows<width>::at(first + apart, column), inside ? at : from.data, inside);
  }
}

/// The warp's sums to rows row.. of a head, where they exist.
template <class T, int wide>
__device__ __forceinline__ void store_rows(const Heads<T>& to, std::int64_t b, std::int64_t row,
                                           std::int64_t h, std::int64_t length, std::int64_t size,
                                           const SumFragment (&sums)[wide], bool accumulate) {
  const FragmentPlace at;
  INGOT_UNROLL
  for (int r = 0; r < 2; ++r) {
    const std::int64_t i = row + at.row + 8 * r;
    if (i >= length) continue;
    T* there = to.row(b, i, h);
    INGOT_UNROLL
    for (int j = 0; j < wide; ++j) {
      if (8 * j < size)
        store_pair(there + 8 * j + at.column, sums[j].values[2 * r], sums[j].values[2 * r + 1], accumulate);
    }
  }
}

/// Puts `value` where a thread's two rows, each with its range, do not see columns begin...
template <int wide>
__device__ __forceinline__ void hide_unseen(SumFragment (&scores)[wide], const Range* ranges, int begin,
                                            float value) {
  const FragmentPlace at;
  INGOT_UNROLL
  for (int r = 0; r < 2; ++r) {
    if (ranges[r].covers(begin, 8 * wide)) continue;
    INGOT_UNROLL
    for (int j = 0; j < wide; ++j) {
      INGOT_UNROLL
      for (int e = 0; e < 2; ++e) {
        if (!ranges[r].holds(begin + 8 * j + at.column + e)) scores[j].values[2 * r + e] = value;
      }
    }
  }
}

/// Calls f.template operator()<T, width>() for a half type and the wider of the two head sizes.
template <class F>
void dispatch_tensor_attention(const View& q, const View& v, F&& f) {
  const std::int64_t size = std::max(q.dim(3), v.dim(3));
  dispatch_device_half(q.dtype, [&]<class T>() {
    if (size <= 64) return f.template operator()<T, 64>();
    if (size <= 128) return f.template operator()<T, 128>();
    f.template operator()<T, 256>();
  });
}

/// One block for each tile of `rows` rows of each of `heads` heads.
inline Size3 grid_of_tiles(const View& x, std::int64_t heads, int rows) {
  return {static_cast<unsigned>((x.dim(1) + rows - 1) / rows), static_cast<unsigned>(heads),
          static_cast<unsigned>(x.dim(0))};
}

/// Whether the copies of 16 bytes can read and the stores of pairs write these heads.
inline bool suits_tensor_cores(std::initializer_list<View> heads) {
  constexpr std::int64_t kPackOf = 8, kWidest = 256;
  for (const View& x : heads) {
    if (!x) continue;
    const DType dtype = heads.begin()->dtype;
    if ((dtype != DType::bf16 && dtype != DType::f16) || x.dtype != dtype) return false;
    if (x.dim(3) % kPackOf != 0 || x.dim(3) > kWidest) return false;
    if (reinterpret_cast<std::uintptr_t>(x.data) % 16 != 0) return false;
    for (int i = 0; i < 3; ++i)
      if (x.dim(i) > 1 && x.stride(i) % kPackOf != 0) return false;
  }
  return true;
}

void run_tensor_attention_backward(const AttentionBackwardArgs& args, Stream stream);

}  // namespace ingot::kernels::cuda
