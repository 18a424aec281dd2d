#include <algorithm>

#include "ingot/kernels/cuda/attention/attention_parts.h"
#include "ingot/kernels/cuda/register.h"

namespace ingot::kernels::cuda {
namespace {

// Attention on plain f32 units, for every mask, group and head size up to 256: what is correct where a
// library's tensor-core kernels do not apply, not what is fast. A block works on a tile of 32 queries (or,
// for the gradients of keys and values, of 32 keys; of 16 where heads are wide, so that four tiles are less
// than the 99 KiB of shared memory that every GPU has), shared out among its eight warps; the other side
// streams through shared memory in tiles of 32, one for each lane. No sum depends on chance.

constexpr int kTile = 32;
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
/// Of the block's own tile of gradients.
template <int columns>
constexpr int kGradientTile = columns <= 4 ? kTile : kTile / 2;

/// to[row][column] = from's rows [begin, begin + rows), as f32, times their `scales` unless null; zeros
/// beyond `width`, and for rows that `there` leaves out: nobody looks at those, and what they hold may be a
/// NaN, which a weight of 0 would not hide.
template <int rows, class T>
__device__ void load_tile(float* to, int pitch, const Heads<const T>& from, std::int64_t b, int begin,
                          std::int64_t h, Range there, std::int64_t width, const float* scales = nullptr) {
  for (int e = static_cast<int>(threadIdx.x); e < rows * pitch; e += kThreads) {
    const int row = e / pitch, column = e % pitch;
    const bool inside = there.holds(begin + row) && column < width;
    to[e] = inside ? to_float(from.row(b, begin + row, h)[column]) : 0.0F;
    if constexpr (std::is_same_v<T, std::int8_t>)
      if (inside && scales != nullptr) to[e] *= scales[begin + row];
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

template <class T, class K, int columns>
__global__ void __launch_bounds__(kThreads)
    attention_kernel(const __grid_constant__ AttentionForward<T, K> args,
                     const __grid_constant__ RowScales k_scales, const __grid_constant__ RowScales v_scales) {
  constexpr int kPitch = columns * kWarp + 1;
  INGOT_DYNAMIC_SHARED(float, shared);
  float *const queries = shared, *const keys = queries + kTile * kPitch,
               *const values = keys + kTile * kPitch;
  constexpr int kRows = kTile / kWarps;  // of the block's tile that a warp has
  const BlockPosition position(tiles_of(args.mask.queries, kTile), args.heads);
  const int b = position.b, h = position.h, i0 = position.tile * kTile;
  const std::int64_t kv = h / args.group;
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            first = static_cast<int>(threadIdx.x) / kWarp * kRows;
  Range ranges[kRows];
  float top[kRows], total[kRows] = {}, sums[kRows][columns] = {};
  for (int r = 0; r < kRows; ++r) {
    ranges[r] = range_of(args.mask, b, i0 + first + r);
    top[r] = -INFINITY;
  }
  const Range any = range_of_block(ranges, static_cast<int>(args.mask.keys)).any;
  load_tile<kTile>(queries, kPitch, args.q, b, i0, h, {0, static_cast<int>(args.mask.queries)}, args.d);
  for (int j0 = any.lo / kTile * kTile; j0 < any.hi; j0 += kTile) {
    __syncthreads();  // the tiles before have been read
    load_tile<kTile>(keys, kPitch, args.k, b, j0, kv, any, args.d, k_scales.head(b, kv));
    load_tile<kTile>(values, kPitch, args.v, b, j0, kv, any, args.dv, v_scales.head(b, kv));
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
      args.lse[(std::int64_t{b} * args.heads + h) * args.mask.queries + i] =
          nothing ? -INFINITY : top[r] + logf(total[r]);
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
  constexpr int kPitch = columns * kWarp + 1, kOwn = kGradientTile<columns>, kRows = kOwn / kWarps;
  INGOT_DYNAMIC_SHARED(float, shared);
  float *const queries = shared, *const douts = queries + kOwn * kPitch, *const keys = douts + kOwn * kPitch,
               *const values = keys + kTile * kPitch;
  const BlockPosition position(tiles_of(args.mask.queries, kOwn), args.heads);
  const int b = position.b, h = position.h, i0 = position.tile * kOwn;
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            first = static_cast<int>(threadIdx.x) / kWarp * kRows;
  Range ranges[kRows];
  float lse[kRows] = {}, delta[kRows] = {}, sums[kRows][columns] = {};
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t i = i0 + first + r;
    ranges[r] = range_of(args.mask, b, i);
    if (i >= args.mask.queries) continue;
    lse[r] = args.lse[args.position(b, i, h)];
    delta[r] = args.delta[args.position(b, i, h)];
  }
  const Range any = range_of_block(ranges, static_cast<int>(args.mask.keys)).any;
  const Range queries_there{0, static_cast<int>(args.mask.queries)};
  load_tile<kOwn>(queries, kPitch, args.q, b, i0, h, queries_there, args.d);
  load_tile<kOwn>(douts, kPitch, args.dout, b, i0, h, queries_there, args.dv);
  for (int j0 = any.lo / kTile * kTile; j0 < any.hi; j0 += kTile) {
    __syncthreads();
    load_tile<kTile>(keys, kPitch, args.k, b, j0, h / args.group, any, args.d);
    load_tile<kTile>(values, kPitch, args.v, b, j0, h / args.group, any, args.dv);
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
  constexpr int kPitch = columns * kWarp + 1, kOwn = kGradientTile<columns>, kRows = kOwn / kWarps;
  INGOT_DYNAMIC_SHARED(float, shared);
  float *const keys = shared, *const values = keys + kOwn * kPitch, *const queries = values + kOwn * kPitch,
               *const douts = queries + kTile * kPitch;
  const BlockPosition position(tiles_of(args.mask.keys, kOwn), args.heads / args.group);
  const int b = position.b, kv = position.h, j0 = position.tile * kOwn;
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            first = static_cast<int>(threadIdx.x) / kWarp * kRows;
  float dk[kRows][columns] = {}, dv[kRows][columns] = {};
  const Range keys_there{0, static_cast<int>(args.mask.keys)};
  load_tile<kOwn>(keys, kPitch, args.k, b, j0, kv, keys_there, args.d);
  load_tile<kOwn>(values, kPitch, args.v, b, j0, kv, keys_there, args.dv);
  for (int i0 = 0; i0 < args.mask.queries; i0 += kTile) {
    const Range range = range_of(args.mask, b, i0 + lane);  // a lane is a query here, in every warp
    const bool meets = range.meets(j0, kOwn);
    const Range any{warp_least(meets ? i0 + lane : i0 + kTile), -warp_least(meets ? -(i0 + lane + 1) : 0)};
    if (any.empty()) continue;
    for (std::int64_t h = kv * args.group; h < (kv + 1) * args.group; ++h) {
      __syncthreads();  // the tile before has been read
      load_tile<kTile>(queries, kPitch, args.q, b, i0, h, any, args.d);
      load_tile<kTile>(douts, kPitch, args.dout, b, i0, h, any, args.dv);
      __syncthreads();
      const bool exists = i0 + lane < args.mask.queries;
      const float lse = exists ? args.lse[args.position(b, i0 + lane, h)] : 0.0F;
      const float delta = exists ? args.delta[args.position(b, i0 + lane, h)] : 0.0F;
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
        add_weighted<columns>(dk[r], seen ? p * (dp - delta) * slope : 0.0F, queries, lane);
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

/// Bytes of `rows` rows in tiles for heads of 32 · columns.
template <int columns>
constexpr std::size_t tile_bytes(int rows) {
  return sizeof(float) * static_cast<std::size_t>(rows * (columns * kWarp + 1));
}
static_assert(tile_bytes<8>(3 * kTile) < 98 * 1024 &&
              tile_bytes<8>(2 * (kGradientTile<8> + kTile)) < 98 * 1024);  // some is declared apart

/// Calls f.template operator()<T, columns>() for the dtype and the wider of the two head sizes.
template <class F>
void dispatch_head(const char* kernel, const View& q, const View& v, F&& f) {
  const std::int64_t width = std::max(q.dim(3), v.dim(3));
  dispatch_device_float(q.dtype, kernel, [&]<class T>() {
    if (width <= 64) return f.template operator()<T, 2>();
    if (width <= 128) return f.template operator()<T, 4>();
    f.template operator()<T, 8>();
  });
}

/// Whether keys and values in K are read for queries in T (is_cache_for).
template <class T, class K>
constexpr bool reads_cache =
    std::is_same_v<T, K> || std::is_same_v<K, std::int8_t> || std::is_same_v<T, float>;

void run_attention(const AttentionArgs& args, Stream stream) {
  if (args.out.numel() == 0) return;
  dispatch_head("attention", args.q, args.v, [&]<class T, int columns>() {
    dispatch_cache(args.k.dtype, "attention", [&]<class K>() {
      if constexpr (reads_cache<T, K>)
        launch({"attention", stream, args.q}, attention_kernel<T, K, columns>,
               grid_of_tiles(args.q, args.q.dim(2), kTile), Size3{kThreads}, tile_bytes<columns>(3 * kTile),
               AttentionForward<T, K>(args), RowScales(args.k_scale), RowScales(args.v_scale));
    });
  });
}

void run_attention_backward(const AttentionBackwardArgs& args, Stream stream) {
  if (args.q.numel() == 0 && args.k.numel() == 0) return;
  const LaunchSite site{"attention_backward", stream, args.q};
  dispatch_head("attention_backward", args.q, args.v, [&]<class T, int columns>() {
    constexpr int kOwn = kGradientTile<columns>;
    const AttentionBackward<T> kernel_args(args);
    launch_attention_delta(site, kernel_args, args.delta.numel());
    if (args.dq && args.q.numel() > 0)
      launch(site, attention_dq_kernel<T, columns>, grid_of_tiles(args.q, args.q.dim(2), kOwn),
             Size3{kThreads}, tile_bytes<columns>(2 * (kOwn + kTile)), kernel_args);
    if ((args.dk || args.dv) && args.k.numel() > 0)
      launch(site, attention_dkv_kernel<T, columns>, grid_of_tiles(args.k, args.k.dim(2), kOwn),
             Size3{kThreads}, tile_bytes<columns>(2 * (kOwn + kTile)), kernel_args);
  });
}

bool takes_heads(const View& q, const View& k, const View& v) {
  return is_cache_for(q, k, v) && q.dim(3) <= kWidest && v.dim(3) <= kWidest;
}

}  // namespace

void register_attention() {
  attention.add(DeviceType::cuda, {"tiled", ImplKind::cuda,
                                   [](const AttentionArgs& args) {
                                     return !args.caches && takes_heads(args.q, args.k, args.v);
                                   },
                                   run_attention});
  attention_backward.add(DeviceType::cuda, {"tiled", ImplKind::cuda,
                                            [](const AttentionBackwardArgs& args) {
                                              return args.k.dtype == args.q.dtype &&
                                                     takes_heads(args.q, args.k, args.v) && has_delta(args);
                                            },
                                            run_attention_backward});
}

}  // namespace ingot::kernels::cuda
