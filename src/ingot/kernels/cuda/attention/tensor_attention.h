#pragma once

#include "ingot/kernels/cuda/attention/attention_parts.h"
#include "ingot/kernels/cuda/device/tensor_core.h"

// Attention on tensor cores, for f16 and bf16: the tiles, the running softmax and the recomputation of
// FlashAttention-2 (Dao 2023). A block has four warps, each with rows of its own of the block's tile
// (queries, or keys for the gradients of keys and values), and walks over the other side in steps. What the
// first matmul of a step reads is copied while the step before is worked on, and the rest while that first
// matmul runs: so it has two positions in shared memory, the rest one, and a block needs less than the 99
// KiB that every GPU has. Scores never leave the registers, where they are the left operand of the next
// matmul as they lie.
namespace ingot::kernels::cuda {

inline constexpr int kAttentionThreads = 4 * kWarp;

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

/// Starts to copy rows [begin, begin + rows) of a head, `stride` apart, to a tile; zeros beyond the head's
/// `size`, a multiple of 8, and for rows that `there` leaves out: nobody looks at those, and what they hold
/// may be a NaN, which a weight of 0 would not hide.
template <int rows, int width, class T>
__device__ __forceinline__ void copy_rows(T* tile, const T* head, std::int64_t stride, int begin, Range there,
                                          std::int64_t size) {
  constexpr int kVectors = width / kVector<T>, kApart = kAttentionThreads / kVectors;
  const int first = static_cast<int>(threadIdx.x) / kVectors,
            column = static_cast<int>(threadIdx.x) % kVectors * kVector<T>;
  if (column >= size) there.hi = there.lo;
  const T* at = head + (begin + first) * stride + column;
  INGOT_UNROLL
  for (int apart = 0; apart < rows; apart += kApart, at += kApart * stride)
    copy_async(tile + PaddedRows<width>::at(first + apart, column), at, there.holds(begin + first + apart));
}

/// The warp's sums to rows row.. of a head, where they exist.
template <class T, int wide>
__device__ __forceinline__ void store_rows(T* head, std::int64_t stride, int row, std::int64_t length,
                                           std::int64_t size, const SumFragment (&sums)[wide],
                                           bool accumulate) {
  const FragmentPosition at;
  INGOT_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int i = row + at.row + 8 * r;
    if (i >= length) continue;
    T* there = head + i * stride;
    INGOT_UNROLL
    for (int j = 0; j < wide; ++j) {
      if (8 * j < size)
        store_pair(there + 8 * j + at.column, sums[j].values[2 * r], sums[j].values[2 * r + 1], accumulate);
    }
  }
}

/// A range in shared memory.
struct StoredRange {
  int lo, hi;
};

/// Puts `value` where columns begin.. of the warp's 16 rows are not seen; `ranges`: of those rows.
template <int wide>
__device__ __forceinline__ void hide_unseen(SumFragment (&scores)[wide], const StoredRange* ranges, int begin,
                                            float value) {
  const FragmentPosition at;
  INGOT_UNROLL
  for (int r = 0; r < 2; ++r) {
    const StoredRange stored = ranges[at.row + 8 * r];
    const Range range{stored.lo - begin - at.column, stored.hi - begin - at.column};
    INGOT_UNROLL
    for (int j = 0; j < wide; ++j) {
      INGOT_UNROLL
      for (int e = 0; e < 2; ++e) {
        if (!range.holds(8 * j + e)) scores[j].values[2 * r + e] = value;
      }
    }
  }
}

/// Keeps the ranges of `rows` queries from i0 on in shared memory, where only steps at a border read them,
/// and puts them together. What the last query sees stands for those behind it, which nobody reads.
template <int rows>
__device__ __forceinline__ BlockRange store_ranges(StoredRange* ranges, const Mask& mask, std::int64_t b,
                                                   std::int64_t i0) {
  static_assert(kAttentionThreads % rows == 0);
  const int row = static_cast<int>(threadIdx.x) % rows;
  const std::int64_t i = i0 + row < mask.queries ? i0 + row : mask.queries - 1;
  const Range mine[1] = {range_of(mask, b, i)};
  if (threadIdx.x < rows) ranges[row] = {mine[0].lo, mine[0].hi};
  return range_of_block(mine, static_cast<int>(mask.keys));
}

/// Where `linear`, scores are q·k times a number above 0: then that and the conversion to powers of two
/// are one factor, and the order of scores is that of q·k.
inline bool is_linear(float scale, float softcap) { return softcap <= 0.0F && scale > 0.0F; }

/// Turns q·k into the weight of the pair, and dout·v into the gradient by q·k; a hidden pair's may be
/// anything.
template <bool linear>
struct PairGradient {
  float scale, softcap;

  __device__ __forceinline__ void operator()(float& product, float& dproduct, float lse, float delta) const {
    if constexpr (linear) {
      product = fast_exp2(fmaf(product, scale * kLog2E, -lse * kLog2E));
      dproduct = product * fmaf(dproduct, scale, -delta * scale);
    } else {
      float slope = 0;
      const float score = score_of(product, scale, softcap, slope);
      product = fast_exp2((score - lse) * kLog2E);
      dproduct = product * (dproduct - delta) * slope;
    }
  }
};

/// Calls f.template operator()<T, width, linear>() for a half type and the wider of the two head sizes.
template <class F>
void dispatch_tensor_attention(const View& q, const View& v, bool linear, F&& f) {
  const std::int64_t size = std::max(q.dim(3), v.dim(3));
  dispatch_device_half(q.dtype, [&]<class T>() {
    const auto run = [&]<int width>() {
      if (linear) return f.template operator()<T, width, true>();
      f.template operator()<T, width, false>();
    };
    if (size <= 64) return run.template operator()<64>();
    if (size <= 128) return run.template operator()<128>();
    run.template operator()<256>();
  });
}

/// Whether the copies of 16 bytes can read and the stores of pairs write these heads.
inline bool suits_tensor_cores(std::initializer_list<View> heads) {
  constexpr std::int64_t kVectorOf = 8, kWidest = 256;
  for (const View& x : heads) {
    if (!x) continue;
    const DType dtype = heads.begin()->dtype;
    if ((dtype != DType::bf16 && dtype != DType::f16) || x.dtype != dtype) return false;
    if (x.dim(3) % kVectorOf != 0 || x.dim(3) > kWidest) return false;
    if (reinterpret_cast<std::uintptr_t>(x.data) % 16 != 0) return false;
    for (int i = 0; i < 3; ++i)
      if (x.dim(i) > 1 && x.stride(i) % kVectorOf != 0) return false;
  }
  return true;
}

void run_tensor_attention_backward(const AttentionBackwardArgs& args, Stream stream);

}  // namespace ingot::kernels::cuda
