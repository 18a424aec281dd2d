#include "ingot/kernels/cuda/tensor_attention.h"

namespace ingot::kernels::cuda {
namespace {

// Gradients in two kernels, so that no sum depends on chance: queries walk over keys for dq, keys over
// queries for dk and dv. Both compute the scores again.

constexpr int kRows = kAttentionThreads / kWarp * 16;  // of a block's tile
/// Rows of the other side to a step.
template <int width>
constexpr int kStep = width <= 128 ? 64 : 16;

/// dq of a tile of queries.
template <class T, int width>
__global__ void __launch_bounds__(kAttentionThreads)
    tensor_attention_dq_kernel(const __grid_constant__ AttentionBackward<T> args) {
  constexpr int step = kStep<width>, tile = tile_size<width>(step);
  INGOT_DYNAMIC_SHARED(T, queries);
  T *const douts = queries + tile_size<width>(kRows), *const keys = douts + tile_size<width>(kRows),
           *const values = keys + 2 * tile;
  const std::int64_t i0 = std::int64_t{gridDim.x - 1 - blockIdx.x} * kRows, h = blockIdx.y, b = blockIdx.z,
                     kv = h / args.group;
  const FragmentPlace at;
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16;
  Range ranges[2];
  float lse[2] = {}, delta[2] = {};
  INGOT_UNROLL
  for (int r = 0; r < 2; ++r) {
    const std::int64_t i = i0 + row + at.row + 8 * r;
    ranges[r] = range_of(args.mask, b, i);
    if (i >= args.mask.queries) continue;
    lse[r] = args.lse[args.place(b, i, h)] * kLog2E;
    delta[r] = args.delta[args.place(b, i, h)];
  }
  const Range all = range_of_block(ranges, static_cast<int>(args.mask.keys), step);
  const auto copy_keys = [&](int j0, int half) {
    copy_rows<step, width>(keys + half * tile, args.k, b, j0, kv, args.mask.keys, args.d);
  };
  copy_rows<kRows, width>(queries, args.q, b, i0, h, args.mask.queries, args.d);
  copy_rows<kRows, width>(douts, args.dout, b, i0, h, args.mask.queries, args.dv);
  if (all.lo < all.hi) copy_keys(all.lo, 0);
  commit_copies();

  SumFragment sums[1][width / 8];
  int half = 0;
  for (int j0 = all.lo; j0 < all.hi; j0 += step, half ^= 1) {
    wait_copies<0>();
    __syncthreads();  // the keys have arrived, and everybody is through with the step before
    copy_rows<step, width>(values, args.v, b, j0, kv, args.mask.keys, args.dv);
    commit_copies();
    if (j0 + step < all.hi) copy_keys(j0 + step, half ^ 1);
    commit_copies();
    SumFragment scores[1][step / 8], dscores[1][step / 8];
    add_product_of_rows<T, width>(scores, queries, row, keys + half * tile);
    wait_copies<1>();
    __syncthreads();  // the values have arrived
    add_product_of_rows<T, width>(dscores, douts, row, values);
    INGOT_UNROLL
    for (int j = 0; j < step / 8; ++j) {
      INGOT_UNROLL
      for (int e = 0; e < 4; ++e) {
        float slope = 0;
        const float score = score_of(scores[0][j].values[e], args.scale, args.softcap, slope);
        const float weight = fast_exp2(score * kLog2E - lse[e / 2]);
        dscores[0][j].values[e] = weight * (dscores[0][j].values[e] - delta[e / 2]) * slope;
      }
    }
    hide_unseen(dscores[0], ranges, j0, 0.0F);
    add_weighted_rows<T>(sums, dscores, keys + half * tile);
  }
  wait_copies<0>();  // where there was no step
  store_rows(args.dq, b, i0 + row, h, args.mask.queries, args.d, sums[0], args.accumulate_dq);
}

/// What the kernel below knows of a query: log sum and delta, and the block's keys that it sees.
struct alignas(16) QueryInfo {
  float lse, delta;
  int lo, hi;
};

/// dk, dv or both of a tile of keys: over the query heads that read them, and the queries, in order.
template <class T, int width, bool with_dk, bool with_dv>
__global__ void __launch_bounds__(kAttentionThreads)
    tensor_attention_dkv_kernel(const __grid_constant__ AttentionBackward<T> args) {
  constexpr int step = kStep<width>, tile = tile_size<width>(step);
  INGOT_DYNAMIC_SHARED(T, keys);
  INGOT_SHARED_ARRAY(QueryInfo, infos, 2 * step);
  T *const values = keys + tile_size<width>(kRows), *const queries = values + tile_size<width>(kRows),
           *const douts = queries + 2 * tile;
  const int j0 = static_cast<int>(blockIdx.x) * kRows;
  const std::int64_t kv = blockIdx.y, b = blockIdx.z;
  const FragmentPlace at;
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16;

  Range seen_by[1] = {};  // of this thread's share of the queries, from the first to the last
  for (int i = static_cast<int>(threadIdx.x); i < args.mask.queries; i += kAttentionThreads) {
    if (!range_of(args.mask, b, i).meets(j0, kRows)) continue;
    if (seen_by[0].hi == 0) seen_by[0].lo = i;
    seen_by[0].hi = i + 1;
  }
  const Range all = range_of_block(seen_by, static_cast<int>(args.mask.queries), step);
  // Steps are counted through the heads: step s is of head kv · group + s / per_head.
  const int per_head = all.hi > all.lo ? (all.hi - all.lo + step - 1) / step : 0;
  const int steps = per_head * static_cast<int>(args.group);
  const auto head_of = [&](int s) { return kv * args.group + s / per_head; };
  const auto first_of = [&](int s) { return all.lo + s % per_head * step; };
  const auto copy_queries = [&](int s, int half) {
    const std::int64_t h = head_of(s);
    copy_rows<step, width>(queries + half * tile, args.q, b, first_of(s), h, args.mask.queries, args.d);
    if (threadIdx.x >= step) return;
    const std::int64_t i = first_of(s) + static_cast<int>(threadIdx.x);
    QueryInfo info{};
    if (i < args.mask.queries) {
      const Range range = range_of(args.mask, b, i);
      const auto within = [&](int j) { return j < j0 ? 0 : j - j0 < kRows ? j - j0 : kRows; };
      info = {args.lse[args.place(b, i, h)] * kLog2E, args.delta[args.place(b, i, h)], within(range.lo),
              within(range.hi)};
    }
    infos[half * step + static_cast<int>(threadIdx.x)] = info;
  };
  copy_rows<kRows, width>(keys, args.k, b, j0, kv, args.mask.keys, args.d);
  if constexpr (with_dk) copy_rows<kRows, width>(values, args.v, b, j0, kv, args.mask.keys, args.dv);
  if (steps > 0) copy_queries(0, 0);
  commit_copies();

  SumFragment dk[1][with_dk ? width / 8 : 1], dv[1][with_dv ? width / 8 : 1];
  int half = 0;
  for (int s = 0; s < steps; ++s, half ^= 1) {
    wait_copies<0>();
    __syncthreads();  // the queries have arrived, and everybody is through with the step before
    copy_rows<step, width>(douts, args.dout, b, first_of(s), head_of(s), args.mask.queries, args.dv);
    commit_copies();
    if (s + 1 < steps) copy_queries(s + 1, half ^ 1);
    commit_copies();
    SumFragment weights[1][step / 8], dscores[1][step / 8];
    add_product_of_rows<T, width>(weights, keys, row, queries + half * tile);
    wait_copies<1>();
    __syncthreads();  // the gradients of the result have arrived
    if constexpr (with_dk) add_product_of_rows<T, width>(dscores, values, row, douts);
    INGOT_UNROLL
    for (int j = 0; j < step / 8; ++j) {
      INGOT_UNROLL
      for (int e = 0; e < 4; ++e) {
        const QueryInfo info = infos[half * step + 8 * j + at.column + e % 2];
        const int key = row + at.row + e / 2 * 8;
        float slope = 0;
        const float score = score_of(weights[0][j].values[e], args.scale, args.softcap, slope);
        const float weight = key >= info.lo && key < info.hi ? fast_exp2(score * kLog2E - info.lse) : 0.0F;
        weights[0][j].values[e] = weight;
        if constexpr (with_dk)
          dscores[0][j].values[e] = weight * (dscores[0][j].values[e] - info.delta) * slope;
      }
    }
    if constexpr (with_dv) add_weighted_rows<T>(dv, weights, douts);
    if constexpr (with_dk) add_weighted_rows<T>(dk, dscores, queries + half * tile);
  }
  wait_copies<0>();  // where there was no step
  if constexpr (with_dk)
    store_rows(args.dk, b, j0 + row, kv, args.mask.keys, args.d, dk[0], args.accumulate_dk);
  if constexpr (with_dv)
    store_rows(args.dvalue, b, j0 + row, kv, args.mask.keys, args.dv, dv[0], args.accumulate_dv);
}

template <class T, int width>
void launch_dkv(const AttentionBackwardArgs& args, const LaunchSite& site, std::size_t shared_bytes) {
  const auto run = [&]<bool with_dk, bool with_dv>() {
    launch(site, tensor_attention_dkv_kernel<T, width, with_dk, with_dv>,
           grid_of_tiles(args.k, args.k.dim(2), kRows), Size3{kAttentionThreads}, shared_bytes,
           AttentionBackward<T>(args));
  };
  if constexpr (width <= 128) {  // the sums of both fit into the registers
    if (args.dk && args.dv) return run.template operator()<true, true>();
  }
  if (args.dk) run.template operator()<true, false>();
  if (args.dv) run.template operator()<false, true>();
}

}  // namespace

void run_tensor_attention_backward(const AttentionBackwardArgs& args, Stream stream) {
  const LaunchSite site{"attention_backward", stream, args.q};
  dispatch_tensor_attention(args.q, args.v, [&]<class T, int width>() {
    constexpr std::size_t kMemory = attention_memory<T, width, 2 * kRows, kStep<width>>();
    const AttentionBackward<T> kernel_args(args);
    launch_attention_delta(site, kernel_args, args.delta.numel());
    if (args.dq && args.q.numel() > 0)
      launch(site, tensor_attention_dq_kernel<T, width>, grid_of_tiles(args.q, args.q.dim(2), kRows),
             Size3{kAttentionThreads}, kMemory, kernel_args);
    if (args.k.numel() > 0) launch_dkv<T, width>(args, site, kMemory);
  });
}

}  // namespace ingot::kernels::cuda
