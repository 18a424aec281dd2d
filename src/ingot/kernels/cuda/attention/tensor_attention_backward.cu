#include "ingot/kernels/cuda/attention/tensor_attention.h"

namespace ingot::kernels::cuda {
namespace {

// Gradients in two kernels, so that no sum depends on chance: queries walk over keys for dq, keys over
// queries for dk and dv. Both compute the scores again.

constexpr int kRows = kAttentionThreads / kWarp * 16;  // of a block's tile
/// Rows of the other side to a step.
template <int width>
constexpr int kStep = width <= 128 ? 64 : 16;

/// dq of a tile of queries.
template <class T, int width, bool linear>
__global__ void __launch_bounds__(kAttentionThreads)
    tensor_attention_dq_kernel(const __grid_constant__ AttentionBackward<T> args) {
  constexpr int step = kStep<width>, tile = tile_size<width>(step);
  INGOT_DYNAMIC_SHARED(T, queries);
  INGOT_SHARED_ARRAY(StoredRange, ranges, kRows);
  T *const douts = queries + tile_size<width>(kRows), *const keys = douts + tile_size<width>(kRows),
           *const values = keys + 2 * tile;
  const int tiles = static_cast<int>(tiles_of(args.mask.queries, kRows));
  const BlockPosition position(tiles, args.heads);
  const int i0 = (tiles - 1 - position.tile) * kRows, h = position.h, b = position.b,
            kv = h / static_cast<int>(args.group);
  const FragmentPosition at;
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16;
  float lse[2] = {}, delta[2] = {};
  INGOT_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int i = i0 + row + at.row + 8 * r;
    if (i >= args.mask.queries) continue;
    lse[r] = args.lse[args.position(b, i, h)];
    delta[r] = args.delta[args.position(b, i, h)];
  }
  const BlockRange seen = store_ranges<kRows>(ranges, args.mask, b, i0);
  const int begin = seen.any.lo / step * step;
  const T *const key_rows = args.k.head(b, kv), *const value_rows = args.v.head(b, kv);
  const auto copy_keys = [&](int j0, int half) {
    copy_rows<step, width>(keys + half * tile, key_rows, args.k.strides[1], j0, seen.any, args.d);
  };
  const Range queries_there{0, static_cast<int>(args.mask.queries)};
  copy_rows<kRows, width>(queries, args.q.head(b, h), args.q.strides[1], i0, queries_there, args.d);
  copy_rows<kRows, width>(douts, args.dout.head(b, h), args.dout.strides[1], i0, queries_there, args.dv);
  if (begin < seen.any.hi) copy_keys(begin, 0);
  commit_copies();

  const PairGradient<linear> gradient{args.scale, args.softcap};
  SumFragment sums[1][width / 8];
  int half = 0;
  for (int j0 = begin; j0 < seen.any.hi; j0 += step, half ^= 1) {
    wait_copies<0>();
    __syncthreads();  // the keys have arrived, and everybody is through with the step before
    copy_rows<step, width>(values, value_rows, args.v.strides[1], j0, seen.any, args.dv);
    commit_copies();
    if (j0 + step < seen.any.hi) copy_keys(j0 + step, half ^ 1);
    commit_copies();
    SumFragment scores[1][step / 8], dscores[1][step / 8];
    add_mma_of_rows<T, width>(scores, queries, row, keys + half * tile);
    wait_copies<1>();
    __syncthreads();  // the values have arrived
    add_mma_of_rows<T, width>(dscores, douts, row, values);
    INGOT_UNROLL
    for (int j = 0; j < step / 8; ++j) {
      INGOT_UNROLL
      for (int e = 0; e < 4; ++e)
        gradient(scores[0][j].values[e], dscores[0][j].values[e], lse[e / 2], delta[e / 2]);
    }
    if (!seen.all.covers(j0, step)) hide_unseen(dscores[0], ranges + row, j0, 0.0F);
    add_weighted_rows<T>(sums, dscores, keys + half * tile);
  }
  wait_copies<0>();  // where there was no step
  store_rows(args.dq.head(b, h), args.dq.strides[1], i0 + row, args.mask.queries, args.d, sums[0],
             args.accumulate_dq);
}

/// What the kernel below knows of the queries of a step.
template <int step>
struct alignas(16) QueryInfos {
  static constexpr int kVotes = (step + kWarp - 1) / kWarp;
  float sums[2 * step];  ///< log sum and delta of each
  int seen[step];     ///< the block's keys that each sees: the first, and 256 times the one behind the last
  int whole[kVotes];  ///< whether each of 32 queries sees all of them
};

/// Puts the queries of a step, from `i0` on, into `infos` in two goes, so that nobody waits for memory
/// between them: begin() starts to copy the sums and returns what finish() then writes.
template <int step>
struct QueryReader {
  static constexpr int kThreads = QueryInfos<step>::kVotes * kWarp;

  template <class T>
  __device__ static __forceinline__ int begin(QueryInfos<step>& infos, const AttentionBackward<T>& args,
                                              int b, int i0, int h, int j0) {
    const int at = static_cast<int>(threadIdx.x);
    if (at >= step) return 0;
    const bool exists = i0 + at < args.mask.queries;
    const std::int64_t from = args.position(b, i0 + at, h);
    copy_word_async(&infos.sums[2 * at], args.lse + from, exists);
    copy_word_async(&infos.sums[2 * at + 1], args.delta + from, exists);
    const Range range = range_of(args.mask, b, i0 + at);
    const auto within = [&](int j) { return j < j0 ? 0 : j - j0 < kRows ? j - j0 : kRows; };
    return within(range.lo) + 256 * within(range.hi);
  }

  __device__ static __forceinline__ void finish(QueryInfos<step>& infos, int seen) {
    const int at = static_cast<int>(threadIdx.x);
    if (at >= kThreads) return;
    const int whole = __all_sync(kAllLanes, at >= step || seen == 256 * kRows ? 1 : 0);
    if (at < step) infos.seen[at] = seen;
    if (at % kWarp == 0) infos.whole[at / kWarp] = whole;
  }
};

/// Makes what keys row.. have of pairs that do not see each other 0.
template <int step, bool with_dk>
__device__ __forceinline__ void hide_unseen_pairs(SumFragment (&weights)[step / 8],
                                                  SumFragment (&dscores)[step / 8],
                                                  const QueryInfos<step>& infos, int row) {
  const FragmentPosition at;
  INGOT_UNROLL
  for (int j = 0; j < step / 8; ++j) {
    INGOT_UNROLL
    for (int e = 0; e < 4; ++e) {
      const int seen = infos.seen[8 * j + at.column + e % 2], key = row + at.row + e / 2 * 8;
      if (key >= seen % 256 && key < seen / 256) continue;
      weights[j].values[e] = 0.0F;
      if constexpr (with_dk) dscores[j].values[e] = 0.0F;
    }
  }
}

/// dk, dv or both of a tile of keys: over the query heads that read them, and the queries, in order.
template <class T, int width, bool linear, bool with_dk, bool with_dv>
__global__ void __launch_bounds__(kAttentionThreads)
    tensor_attention_dkv_kernel(const __grid_constant__ AttentionBackward<T> args) {
  constexpr int step = kStep<width>, tile = tile_size<width>(step);
  using Infos = QueryInfos<step>;
  using Reader = QueryReader<step>;
  INGOT_DYNAMIC_SHARED(T, keys);
  INGOT_SHARED_ARRAY(Infos, infos, 2);
  T *const values = keys + tile_size<width>(kRows), *const queries = values + tile_size<width>(kRows),
           *const douts = queries + 2 * tile;
  const BlockPosition position(tiles_of(args.mask.keys, kRows), args.heads / args.group);
  const int j0 = position.tile * kRows, kv = position.h, b = position.b;
  const FragmentPosition at;
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16;

  Range seen_by[1] = {};  // of this thread's share of the queries, from the first to the last
  for (int i = static_cast<int>(threadIdx.x); i < args.mask.queries; i += kAttentionThreads) {
    if (!range_of(args.mask, b, i).meets(j0, kRows)) continue;
    if (seen_by[0].hi == 0) seen_by[0].lo = i;
    seen_by[0].hi = i + 1;
  }
  const Range any = range_of_block(seen_by, static_cast<int>(args.mask.queries)).any;
  // Steps are counted through the heads: step s is of head kv · group + s / per_head.
  const int begin = any.lo / step * step;
  const int per_head = any.hi > begin ? (any.hi - begin + step - 1) / step : 0;
  const int steps = per_head * static_cast<int>(args.group);
  const auto head_of = [&](int s) { return kv * static_cast<int>(args.group) + s / per_head; };
  const auto first_of = [&](int s) { return begin + s % per_head * step; };
  const auto copy_queries = [&](int s, int half) {
    copy_rows<step, width>(queries + half * tile, args.q.head(b, head_of(s)), args.q.strides[1], first_of(s),
                           any, args.d);
    return Reader::begin(infos[half], args, b, first_of(s), head_of(s), j0);
  };
  const Range keys_there{0, static_cast<int>(args.mask.keys)};
  copy_rows<kRows, width>(keys, args.k.head(b, kv), args.k.strides[1], j0, keys_there, args.d);
  if constexpr (with_dk)
    copy_rows<kRows, width>(values, args.v.head(b, kv), args.v.strides[1], j0, keys_there, args.dv);
  if (steps > 0) Reader::finish(infos[0], copy_queries(0, 0));
  commit_copies();

  const PairGradient<linear> gradient{args.scale, args.softcap};
  SumFragment dk[1][with_dk ? width / 8 : 1], dv[1][with_dv ? width / 8 : 1];
  int half = 0;
  for (int s = 0; s < steps; ++s, half ^= 1) {
    wait_copies<0>();
    __syncthreads();  // the queries have arrived, and everybody is through with the step before
    copy_rows<step, width>(douts, args.dout.head(b, head_of(s)), args.dout.strides[1], first_of(s), any,
                           args.dv);
    commit_copies();
    const int next = s + 1 < steps ? copy_queries(s + 1, half ^ 1) : 0;
    commit_copies();
    SumFragment weights[1][step / 8], dscores[1][step / 8];
    add_mma_of_rows<T, width>(weights, keys, row, queries + half * tile);
    Reader::finish(infos[half ^ 1], next);
    wait_copies<1>();
    __syncthreads();  // the gradients of the result have arrived
    if constexpr (with_dk) add_mma_of_rows<T, width>(dscores, values, row, douts);
    const Infos& info = infos[half];
    INGOT_UNROLL
    for (int j = 0; j < step / 8; ++j) {
      const Vector<float, 4> sums = load_vector<4>(info.sums + 2 * (8 * j + at.column));
      INGOT_UNROLL
      for (int e = 0; e < 4; ++e)
        gradient(weights[0][j].values[e], dscores[0][j].values[e], sums.values[e % 2 * 2],
                 sums.values[e % 2 * 2 + 1]);
    }
    bool whole = true;
    INGOT_UNROLL
    for (const int vote : info.whole) whole = whole && vote != 0;
    if (!whole) hide_unseen_pairs<step, with_dk>(weights[0], dscores[0], info, row);
    if constexpr (with_dv) add_weighted_rows<T>(dv, weights, douts);
    if constexpr (with_dk) add_weighted_rows<T>(dk, dscores, queries + half * tile);
  }
  wait_copies<0>();  // where there was no step
  if constexpr (with_dk)
    store_rows(args.dk.head(b, kv), args.dk.strides[1], j0 + row, args.mask.keys, args.d, dk[0],
               args.accumulate_dk);
  if constexpr (with_dv)
    store_rows(args.dvalue.head(b, kv), args.dvalue.strides[1], j0 + row, args.mask.keys, args.dv, dv[0],
               args.accumulate_dv);
}

template <class T, int width, bool linear>
void launch_dkv(const AttentionBackwardArgs& args, const LaunchSite& site, std::size_t shared_bytes) {
  const auto run = [&]<bool with_dk, bool with_dv>() {
    launch(site, tensor_attention_dkv_kernel<T, width, linear, with_dk, with_dv>,
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
  const bool linear_scores = is_linear(args.scale, args.softcap);
  dispatch_tensor_attention(args.q, args.v, linear_scores, [&]<class T, int width, bool linear>() {
    constexpr std::size_t kMemory = attention_memory<T, width, 2 * kRows, kStep<width>>();
    const AttentionBackward<T> kernel_args(args);
    launch_attention_delta(site, kernel_args, args.delta.numel());
    if (args.dq && args.q.numel() > 0)
      launch(site, tensor_attention_dq_kernel<T, width, linear>, grid_of_tiles(args.q, args.q.dim(2), kRows),
             Size3{kAttentionThreads}, kMemory, kernel_args);
    if (args.k.numel() > 0) launch_dkv<T, width, linear>(args, site, kMemory);
  });
}

}  // namespace ingot::kernels::cuda
