#include <algorithm>

#include "ingot/kernels/cuda/attention_parts.h"
#include "ingot/kernels/cuda/register.h"

namespace ingot::kernels::cuda {
namespace {

// Attention on plain f32 units, for every mask, group and head size up to 256: what is correct where a
// library's tensor-core kernels do not apply, not what is fast. A block works on a tile of 32 queries (or,
// for the gradients of keys and values, of 32 keys), four of them to each of its eight warps; the other side
// streams through shared memory in tiles of 32, one for each lane. No sum depends on chance.

constexpr int kTile = 32;
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kRows = kTile / kWarps;  // of the block's tile that a warp has

/// to[row][column] = from's rows [begin, begin + 32), as f32; zeros beyond `length` and `width`.
template <class T>
__device__ void load_tile(float* to, int pitch, const Heads<const T>& from, std::int64_t b,
                          std::int64_t begin, std::int64_t h, std::int64_t length, std::int64_t width) {
  for (int e = static_cast<int>(threadIdx.x); e < kTile * pitch; e += kThreads) {
    const int row = e / pitch, column = e % pitch;
    const bool inside = begin + row < length && column < width;
    to[e] = inside ? to_float(from.row(b, begin + row, h)[column]) : 0.0F;
  }
}

__device__ __forceinline__ float dot(const float* a, const float* b, std::int64_t n) {
  float sum = 0;
  for (std::int64_t c = 0; c < n; ++c) sum += a[c] * b[c];
  return sum;
}

/// sums[c] += Σ over lanes l of weight of l · rows[l][lane + 32·c]
template <int columns>
__device__ __forceinline__ void add_weighted(float (&sums)[columns], float weight, const float* rows,
                                             int lane) {
  constexpr int kPitch = columns * kWarp + 1;
  for (int l = 0; l < kWarp; ++l) {
    const float w = __shfl_sync(kAllLanes, weight, l);
    INGOT_UNROLL
    for (int c = 0; c < columns; ++c) sums[c] += w * rows[l * kPitch + c * kWarp + lane];
  }
}

template <class T, int columns>
__global__ void __launch_bounds__(kThreads)
    attention_kernel(const __grid_constant__ AttentionForward<T> args) {
  constexpr int kPitch = columns * kWarp + 1;
  INGOT_DYNAMIC_SHARED(float, shared);
  float *const queries = shared, *const keys = queries + kTile * kPitch,
               *const values = keys + kTile * kPitch;
  const std::int64_t b = blockIdx.z, h = blockIdx.y, i0 = std::int64_t{blockIdx.x} * kTile;
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            first = static_cast<int>(threadIdx.x) / kWarp * kRows;
  Range ranges[kRows];
  float top[kRows], total[kRows] = {}, sums[kRows][columns] = {};
  for (int r = 0; r < kRows; ++r) {
    ranges[r] = range_of(args.mask, b, i0 + first + r);
    top[r] = -INFINITY;
  }
  const Range all = range_of_block(ranges, static_cast<int>(args.mask.keys), kTile);
  load_tile(queries, kPitch, args.q, b, i0, h, args.mask.queries, args.d);
  for (int j0 = all.lo; j0 < all.hi; j0 += kTile) {
    __syncthreads();  // the tiles before have been read
    load_tile(keys, kPitch, args.k, b, j0, h / args.group, args.mask.keys, args.d);
    load_tile(values, kPitch, args.v, b, j0, h / args.group, args.mask.keys, args.dv);
    __syncthreads();
    INGOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (!ranges[r].meets(j0, kTile)) continue;  // the same for the whole warp
      float slope = 0;
      float score = score_of(dot(queries + (first + r) * kPitch, keys + lane * kPitch, args.d), args.scale,
                             args.softcap, slope);
      const bool seen = ranges[r].holds(j0 + lane);
      const float higher = fmaxf(top[r], warp_max(seen ? score : -INFINITY));
      const float weight = seen ? expf(score - higher) : 0.0F, rescale = expf(top[r] - higher);
      total[r] = total[r] * rescale + warp_sum(weight);
      INGOT_UNROLL
      for (int c = 0; c < columns; ++c) sums[r][c] *= rescale;
      add_weighted<columns>(sums[r], weight, values, lane);
      top[r] = higher;
    }
  }
  INGOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t i = i0 + first + r;
    if (i >= args.mask.queries) continue;
    const bool nothing = ranges[r].lo >= ranges[r].hi;
    T* out = args.out.row(b, i, h);
    INGOT_UNROLL
    for (int c = 0; c < columns; ++c) {
      if (c * kWarp + lane < args.dv)
        out[c * kWarp + lane] = from_float<T>(nothing ? 0.0F : sums[r][c] / total[r]);
    }
    if (args.lse != nullptr && lane == 0)
      args.lse[(b * args.heads + h) * args.mask.queries + i] = nothing ? -INFINITY : top[r] + logf(total[r]);
  }
}

template <class T, int columns>
__device__ void put_row(T* to, const float (&sums)[columns], std::int64_t width, int lane, bool accumulate) {
  INGOT_UNROLL
  for (int c = 0; c < columns; ++c)
    if (c * kWarp + lane < width) store(to + c * kWarp + lane, sums[c], accumulate);
}

/// dq of a tile of queries.
template <class T, int columns>
__global__ void __launch_bounds__(kThreads)
    attention_dq_kernel(const __grid_constant__ AttentionBackward<T> args) {
  constexpr int kPitch = columns * kWarp + 1;
  INGOT_DYNAMIC_SHARED(float, shared);
  float *const queries = shared, *const douts = queries + kTile * kPitch,
               *const keys = douts + kTile * kPitch, *const values = keys + kTile * kPitch;
  const std::int64_t b = blockIdx.z, h = blockIdx.y, i0 = std::int64_t{blockIdx.x} * kTile;
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            first = static_cast<int>(threadIdx.x) / kWarp * kRows;
  Range ranges[kRows];
  float lse[kRows] = {}, delta[kRows] = {}, sums[kRows][columns] = {};
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t i = i0 + first + r;
    ranges[r] = range_of(args.mask, b, i);
    if (i >= args.mask.queries) continue;
    lse[r] = args.lse[args.place(b, i, h)];
    delta[r] = args.delta[args.place(b, i, h)];
  }
  const Range all = range_of_block(ranges, static_cast<int>(args.mask.keys), kTile);
  load_tile(queries, kPitch, args.q, b, i0, h, args.mask.queries, args.d);
  load_tile(douts, kPitch, args.dout, b, i0, h, args.mask.queries, args.dv);
  for (int j0 = all.lo; j0 < all.hi; j0 += kTile) {
    __syncthreads();
    load_tile(keys, kPitch, args.k, b, j0, h / args.group, args.mask.keys, args.d);
    load_tile(values, kPitch, args.v, b, j0, h / args.group, args.mask.keys, args.dv);
    __syncthreads();
    INGOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (!ranges[r].meets(j0, kTile)) continue;
      float slope = 0;
      const float score = score_of(dot(queries + (first + r) * kPitch, keys + lane * kPitch, args.d),
                                   args.scale, args.softcap, slope);
      const float dp = dot(douts + (first + r) * kPitch, values + lane * kPitch, args.dv);
      const float ds = ranges[r].holds(j0 + lane) ? expf(score - lse[r]) * (dp - delta[r]) * slope : 0.0F;
      add_weighted<columns>(sums[r], ds, keys, lane);
    }
  }
  INGOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t i = i0 + first + r;
    if (i < args.mask.queries)
      put_row<T, columns>(args.dq.row(b, i, h), sums[r], args.d, lane, args.accumulate_dq);
  }
}

/// dk and dv of a tile of keys: over the query heads that read them, and the queries, in order.
template <class T, int columns>
__global__ void __launch_bounds__(kThreads)
    attention_dkv_kernel(const __grid_constant__ AttentionBackward<T> args) {
  constexpr int kPitch = columns * kWarp + 1;
  INGOT_DYNAMIC_SHARED(float, shared);
  float *const keys = shared, *const values = keys + kTile * kPitch, *const queries = values + kTile * kPitch,
               *const douts = queries + kTile * kPitch;
  INGOT_SHARED_ARRAY(int, met, 1);
  const std::int64_t b = blockIdx.z, kv = blockIdx.y;
  const int j0 = static_cast<int>(blockIdx.x) * kTile;
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            first = static_cast<int>(threadIdx.x) / kWarp * kRows;
  float dk[kRows][columns] = {}, dv[kRows][columns] = {};
  load_tile(keys, kPitch, args.k, b, j0, kv, args.mask.keys, args.d);
  load_tile(values, kPitch, args.v, b, j0, kv, args.mask.keys, args.dv);
  for (std::int64_t i0 = 0; i0 < args.mask.queries; i0 += kTile) {
    const Range range = range_of(args.mask, b, i0 + lane);  // a lane is a query here
    __syncthreads();                                        // everybody is through with the tile before
    if (threadIdx.x == 0) met[0] = 0;
    __syncthreads();
    if (threadIdx.x < kWarp && range.meets(j0, kTile)) atomicMax(met, 1);
    __syncthreads();
    if (met[0] == 0) continue;
    for (std::int64_t h = kv * args.group; h < (kv + 1) * args.group; ++h) {
      __syncthreads();  // the head before has been read
      load_tile(queries, kPitch, args.q, b, i0, h, args.mask.queries, args.d);
      load_tile(douts, kPitch, args.dout, b, i0, h, args.mask.queries, args.dv);
      __syncthreads();
      const bool exists = i0 + lane < args.mask.queries;
      const float lse = exists ? args.lse[args.place(b, i0 + lane, h)] : 0.0F;
      const float delta = exists ? args.delta[args.place(b, i0 + lane, h)] : 0.0F;
      INGOT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const bool seen = range.holds(j0 + first + r);
        if (__any_sync(kAllLanes, seen ? 1 : 0) == 0) continue;
        float slope = 0;
        const float score = score_of(dot(queries + lane * kPitch, keys + (first + r) * kPitch, args.d),
                                     args.scale, args.softcap, slope);
        const float dp = dot(douts + lane * kPitch, values + (first + r) * kPitch, args.dv);
        const float p = seen ? expf(score - lse) : 0.0F;
        add_weighted<columns>(dv[r], p, douts, lane);
        add_weighted<columns>(dk[r], p * (dp - delta) * slope, queries, lane);
      }
    }
  }
  INGOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t j = j0 + first + r;
    if (j >= args.mask.keys) continue;
    if (args.dk.data != nullptr)
      put_row<T, columns>(args.dk.row(b, j, kv), dk[r], args.d, lane, args.accumulate_dk);
    if (args.dvalue.data != nullptr)
      put_row<T, columns>(args.dvalue.row(b, j, kv), dv[r], args.dv, lane, args.accumulate_dv);
  }
}

constexpr std::int64_t kWidest = 256;

/// Calls f.template operator()<T, columns>(bytes of one tile) for the dtype and the wider of the two head
/// sizes.
template <class F>
void dispatch_head(const char* kernel, const View& q, const View& v, F&& f) {
  const std::int64_t width = std::max(q.dim(3), v.dim(3));
  dispatch_device_float(q.dtype, kernel, [&]<class T>() {
    const auto run = [&]<int columns>() {
      f.template operator()<T, columns>(sizeof(float) * kTile * (columns * kWarp + 1));
    };
    if (width <= 64) return run.template operator()<2>();
    if (width <= 128) return run.template operator()<4>();
    run.template operator()<8>();
  });
}

Size3 grid_of(const View& tiled, std::int64_t heads) {
  return {static_cast<unsigned>((tiled.dim(1) + kTile - 1) / kTile), static_cast<unsigned>(heads),
          static_cast<unsigned>(tiled.dim(0))};
}

void run_attention(const AttentionArgs& args, Stream stream) {
  if (args.out.numel() == 0) return;
  dispatch_head("attention", args.q, args.v, [&]<class T, int columns>(std::size_t tile_bytes) {
    launch({"attention", stream, args.q}, attention_kernel<T, columns>, grid_of(args.q, args.q.dim(2)),
           Size3{kThreads}, 3 * tile_bytes, AttentionForward<T>(args));
  });
}

void run_attention_backward(const AttentionBackwardArgs& args, Stream stream) {
  if (args.q.numel() == 0 && args.k.numel() == 0) return;
  const LaunchSite site{"attention_backward", stream, args.q};
  dispatch_head("attention_backward", args.q, args.v, [&]<class T, int columns>(std::size_t tile_bytes) {
    const AttentionBackward<T> kernel_args(args);
    launch_attention_delta(site, kernel_args, args.delta.numel());
    if (args.dq && args.q.numel() > 0)
      launch(site, attention_dq_kernel<T, columns>, grid_of(args.q, args.q.dim(2)), Size3{kThreads},
             4 * tile_bytes, kernel_args);
    if ((args.dk || args.dv) && args.k.numel() > 0)
      launch(site, attention_dkv_kernel<T, columns>, grid_of(args.k, args.k.dim(2)), Size3{kThreads},
             4 * tile_bytes, kernel_args);
  });
}

// Caches in another dtype than the queries', and in i8, have no kernel here yet.
bool takes(const View& q, const View& k, const View& v) {
  return is_device_float(q.dtype) && k.dtype == q.dtype && v.dtype == q.dtype && q.dim(3) <= kWidest &&
         v.dim(3) <= kWidest;
}

}  // namespace

void register_attention() {
  attention.add(DeviceType::cuda,
                {"tiled", ImplKind::cuda,
                 [](const AttentionArgs& args) { return takes(args.q, args.k, args.v); }, run_attention});
  attention_backward.add(DeviceType::cuda, {"tiled", ImplKind::cuda,
                                            [](const AttentionBackwardArgs& args) {
                                              return takes(args.q, args.k, args.v) && has_delta(args);
                                            },
                                            run_attention_backward});
}

}  // namespace ingot::kernels::cuda
