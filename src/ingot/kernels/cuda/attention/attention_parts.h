#pragma once

#include "ingot/kernels/attention.h"
#include "ingot/kernels/cuda/device/functions.h"
#include "ingot/kernels/cuda/device/thread_group.h"

// What the attention kernels have in common: heads in memory, and which pairs see each other.
namespace ingot::kernels::cuda {

/// [B, length, heads, width] with adjacent last axes; also destinations.
template <class T>
struct Heads {
  T* data = nullptr;
  std::int64_t strides[3] = {};

  explicit Heads(const View& view) : data(view.as<T>()) {
    // That of an axis of one may be anything, which nobody has checked for alignment.
    for (int i = 0; data != nullptr && i < 3; ++i) strides[i] = view.dim(i) > 1 ? view.stride(i) : 0;
  }
  /// The first row of a head; the next ones are strides[1] apart.
  __device__ T* head(std::int64_t b, std::int64_t h) const { return data + b * strides[0] + h * strides[2]; }
  __device__ T* row(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return head(b, h) + i * strides[1];
  }
};

/// What the elements of the rows of an i8 cache are multiplied with: [B, T, heads], adjacent positions.
struct RowScales {
  const float* data = nullptr;
  std::int64_t sequence_stride = 0, head_stride = 0;

  explicit RowScales(const View& view) : data(view.as<float>()) {
    if (data == nullptr) return;
    sequence_stride = view.dim(0) > 1 ? view.stride(0) : 0;
    head_stride = view.dim(2) > 1 ? view.stride(2) : 0;
  }
  /// Of the first position of a head; null where the rows are as they are.
  __device__ const float* head(std::int64_t b, std::int64_t h) const {
    return data == nullptr ? nullptr : data + b * sequence_stride + h * head_stride;
  }
};

struct Mask {
  const std::int32_t *doc_start, *kv_length;  // either may be null
  std::int64_t doc_stride, window, chunk, queries, keys;
  bool causal;

  Mask(const AttentionMask& mask, std::int64_t queries_, std::int64_t keys_)
      : doc_start(mask.doc_start.as<std::int32_t>()),
        kv_length(mask.kv_length.as<std::int32_t>()),
        doc_stride(mask.doc_start ? mask.doc_start.stride(0) : 0),
        window(mask.window),
        chunk(mask.chunk),
        queries(queries_),
        keys(keys_),
        causal(mask.causal) {}
};

/// Of positions in a sequence.
struct Range {
  int lo = 0, hi = 0;
  __device__ bool holds(int j) const { return j >= lo && j < hi; }
  __device__ bool empty() const { return lo >= hi; }
  /// Of the positions [begin, begin + count): any of them, all of them.
  __device__ bool meets(int begin, int count) const { return lo < begin + count && hi > begin && lo < hi; }
  __device__ bool covers(int begin, int count) const { return lo <= begin && hi >= begin + count; }
};

/// The keys that query i of sequence b sees (kernels/attention.h); none beyond the last query.
__device__ __forceinline__ Range range_of(const Mask& mask, std::int64_t b, std::int64_t i) {
  if (i >= mask.queries) return {};
  std::int64_t length = mask.keys;
  if (mask.kv_length != nullptr) {
    const std::int64_t valid = mask.kv_length[b];
    length = valid < 0 ? 0 : valid < mask.keys ? valid : mask.keys;
  }
  const auto at_least = [](std::int64_t& x, std::int64_t y) { x = x < y ? y : x; };
  const auto at_most = [](std::int64_t& x, std::int64_t y) { x = x > y ? y : x; };
  const std::int64_t position = i + length - mask.queries;
  std::int64_t lo = 0, hi = length;
  if (mask.causal) at_most(hi, position + 1);
  if (mask.window > 0) {
    at_least(lo, position - mask.window + 1);
    if (!mask.causal) at_most(hi, position + mask.window);
  }
  if (mask.chunk > 0) {
    const std::int64_t start = mask.doc_start != nullptr ? mask.doc_start[b * mask.doc_stride + i] : 0;
    at_least(lo, position - (position - start) % mask.chunk);
  }
  if (mask.doc_start != nullptr) {
    const std::int32_t* doc = mask.doc_start + b * mask.doc_stride;
    at_least(lo, doc[i]);
    if (!mask.causal) {
      std::int64_t end = i + 1, beyond = mask.queries;  // documents lie one after the other: halve
      while (end < beyond) {
        const std::int64_t middle = end + (beyond - end) / 2;
        if (doc[middle] == doc[i]) {
          end = middle + 1;
        } else {
          beyond = middle;
        }
      }
      at_most(hi, end);
    }
  }
  if (hi <= lo) return {};
  return {static_cast<int>(lo), static_cast<int>(hi)};
}

/// What a block works on. The grid has all of them along x, because y and z end at 65535.
struct BlockPosition {
  int tile, h, b;  ///< a tile of a head of a sequence

  __device__ __forceinline__ BlockPosition(std::int64_t tiles, std::int64_t heads) {
    const unsigned tile_count = static_cast<unsigned>(tiles), head_count = static_cast<unsigned>(heads);
    const unsigned row = blockIdx.x / tile_count, sequence = row / head_count;
    tile = static_cast<int>(blockIdx.x - row * tile_count);
    h = static_cast<int>(row - sequence * head_count);
    b = static_cast<int>(sequence);
  }
};
constexpr std::int64_t tiles_of(std::int64_t positions, int tile) { return (positions + tile - 1) / tile; }
/// One block for each tile of `tile` positions of x [B, positions, ...] for each of `heads` heads.
inline Size3 grid_of_tiles(const View& x, std::int64_t heads, int tile) {
  return {static_cast<unsigned>(tiles_of(x.dim(1), tile) * heads * x.dim(0))};
}

/// The score of a pair from q·k, and its derivative by that.
__device__ __forceinline__ float score_of(float product, float scale, float softcap, float& slope) {
  const float s = product * scale;
  slope = scale;
  if (softcap <= 0.0F) return s;
  const float t = tanhf(s / softcap);
  slope *= 1.0F - t * t;
  return softcap * t;
}

/// Whether a kernel that reads any dtype of the contract can read these keys and values for such queries.
inline bool is_cache_for(const View& q, const View& k, const View& v) {
  const bool readable = k.dtype == q.dtype || k.dtype == DType::i8 || q.dtype == DType::f32;
  return is_device_float(q.dtype) && (is_device_float(k.dtype) || k.dtype == DType::i8) && readable &&
         v.dtype == k.dtype;
}
/// Calls f.template operator()<K>() with the device's type of a cache's dtype.
template <class F>
void dispatch_cache(DType dtype, const char* kernel, F&& f) {
  if (dtype == DType::i8) return f.template operator()<std::int8_t>();
  dispatch_device_float(dtype, kernel, f);
}

/// What the kernels are given of AttentionArgs. K: of keys and values.
template <class T, class K = T>
struct AttentionForward {
  Heads<const T> q;
  Heads<const K> k, v;
  Heads<T> out;
  float* lse;  // may be null
  Mask mask;
  std::int64_t heads, group, d, dv;
  float scale, softcap;

  explicit AttentionForward(const AttentionArgs& args)
      : q(args.q),
        k(args.k),
        v(args.v),
        out(args.out),
        lse(args.lse.as<float>()),
        mask(args.mask, args.q.dim(1), args.k.dim(1)),
        heads(args.q.dim(2)),
        group(args.q.dim(2) / args.k.dim(2)),
        d(args.q.dim(3)),
        dv(args.v.dim(3)),
        scale(args.scale),
        softcap(args.softcap) {}
};

/// What the kernels are given of AttentionBackwardArgs.
template <class T>
struct AttentionBackward {
  Heads<const T> q, k, v, out, dout;
  Heads<T> dq, dk, dvalue;  // may be absent
  const float* lse;
  float* delta;
  Mask mask;
  std::int64_t heads, group, d, dv;
  float scale, softcap;
  bool accumulate_dq, accumulate_dk, accumulate_dv;

  explicit AttentionBackward(const AttentionBackwardArgs& args)
      : q(args.q),
        k(args.k),
        v(args.v),
        out(args.out),
        dout(args.dout),
        dq(args.dq),
        dk(args.dk),
        dvalue(args.dv),
        lse(args.lse.as<float>()),
        delta(args.delta.as<float>()),
        mask(args.mask, args.q.dim(1), args.k.dim(1)),
        heads(args.q.dim(2)),
        group(args.q.dim(2) / args.k.dim(2)),
        d(args.q.dim(3)),
        dv(args.v.dim(3)),
        scale(args.scale),
        softcap(args.softcap),
        accumulate_dq(args.accumulate_dq),
        accumulate_dk(args.accumulate_dk),
        accumulate_dv(args.accumulate_dv) {}

  /// Where the log sum and delta of a query are.
  __device__ std::int64_t position(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return (b * heads + h) * mask.queries + i;
  }
};

/// Whether the scratch holds what the kernel below makes.
inline bool has_delta(const AttentionBackwardArgs& args) { return args.delta || args.q.numel() == 0; }

/// delta = Σ dout·out of every query: a warp for each.
template <class T>
__global__ void attention_delta_kernel(const __grid_constant__ AttentionBackward<T> args, std::int64_t rows) {
  for (std::int64_t row = ThreadGroup<kWarp>::first_row(); row < rows;
       row += ThreadGroup<kWarp>::row_step()) {
    const std::int64_t i = row % args.mask.queries, h = row / args.mask.queries % args.heads,
                       b = row / args.mask.queries / args.heads;
    const T *out = args.out.row(b, i, h), *dout = args.dout.row(b, i, h);
    float sum = 0;
    for (std::int64_t c = ThreadGroup<kWarp>::lane(); c < args.dv; c += kWarp)
      sum += to_float(out[c]) * to_float(dout[c]);
    sum = warp_sum(sum);
    if (ThreadGroup<kWarp>::lane() == 0) args.delta[row] = sum;
  }
}
template <class T>
void launch_attention_delta(const LaunchSite& site, const AttentionBackward<T>& args, std::int64_t rows) {
  if (rows == 0) return;
  launch(site, attention_delta_kernel<T>, Size3{grid_of_rows<kWarp>(site.stream.device, rows)},
         Size3{ThreadGroup<kWarp>::kThreads}, 0, args, rows);
}

/// The ranges of a block's rows together.
struct BlockRange {
  Range any;  ///< from the first to the last index that one of them holds
  Range all;  ///< what each of them holds
};

/// Of positions below `most`. Every thread of the block calls it.
template <int count>
__device__ BlockRange range_of_block(const Range (&mine)[count], int most) {
  INGOT_SHARED_ARRAY(int, ends, 4);
  int lo = most, hi = 0, all_lo = 0, all_hi = most;
  for (const Range& range : mine) {
    all_lo = range.lo > all_lo ? range.lo : all_lo;
    all_hi = range.hi < all_hi ? range.hi : all_hi;
    if (range.empty()) continue;
    lo = range.lo < lo ? range.lo : lo;
    hi = range.hi > hi ? range.hi : hi;
  }
  lo = warp_least(lo);
  hi = -warp_least(-hi);
  all_lo = -warp_least(-all_lo);
  all_hi = warp_least(all_hi);
  __syncthreads();  // somebody may still read what the call before left
  if (threadIdx.x == 0) {
    ends[0] = most;
    ends[1] = ends[2] = 0;
    ends[3] = most;
  }
  __syncthreads();
  if (threadIdx.x % kWarp == 0) {
    atomicMin(&ends[0], lo);
    atomicMax(&ends[1], hi);
    atomicMax(&ends[2], all_lo);
    atomicMin(&ends[3], all_hi);
  }
  __syncthreads();
  return {{ends[0], ends[1]}, {ends[2], ends[3]}};
}

}  // namespace ingot::kernels::cuda
