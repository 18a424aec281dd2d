#include <algorithm>

#include "ingot/kernels/cuda/attention/decode_attention.h"
#include "ingot/kernels/cuda/register.h"

// Attention of few queries on a long cache: flash decoding (Dao et al. 2023). The keys of a sequence are cut
// into parts, which blocks share; each part gives every query its largest score, Σ weight and Σ weight·value,
// and a second kernel merges these in their order. A block reads the keys of its part once for all queries
// that look at them, of each head of the group, up to 8 (4 of an i8 cache); where there are more, several
// neighbouring blocks read the same keys, which come from the second level cache then.
//
// Parts begin at multiples of kAttentionPartKeys, and within one a key's warp, lanes and position in the sums
// follow from its position. What a query does not see adds exact zeros. So its bits depend on nothing but
// itself and what it sees: not on the capacity of the cache, nor on other queries, heads or sequences.
namespace ingot::kernels::cuda {
namespace {

/// What a block works on: every part_blocks-th part from `part` on. Those that read the same keys are
/// neighbours.
struct DecodePosition {
  int chunk, part, kv, b;

  __device__ __forceinline__ DecodePosition(int chunks, int part_blocks, int kv_heads) {
    int rest = static_cast<int>(blockIdx.x);
    const auto next = [&rest](int count) {
      const int whole = rest / count, digit = rest - whole * count;
      rest = whole;
      return digit;
    };
    chunk = next(chunks);
    part = next(part_blocks);
    kv = next(kv_heads);
    b = rest;
  }
};

/// The queries of a group of heads as f32, in the order in which lanes read them
/// (DecodeConfig::query_position); zeros beyond their size, and for rows that there are not.
template <class Config, class K>
__device__ void load_queries(Quad* to, const DecodeArgs<K>& args, const DecodePosition& at) {
  constexpr int kEights = Config::kWidth / 8;
  INGOT_UNROLL
  for (int begin = 0; begin < Config::kRows * kEights; begin += kDecodeThreads) {
    const int e = begin + static_cast<int>(threadIdx.x), row = e / kEights, column = e % kEights * 8;
    if (row >= Config::kRows) continue;
    Quad values[2] = {};
    const DecodeRow where(args, at.chunk * Config::kRows + row, at.kv);
    if (where.query < args.mask.queries && column < args.d)
      args.q.read(values, at.b, where.query, where.head, column);
    to[Config::query_position(row, column)] = values[0];
    to[Config::query_position(row, column + 4)] = values[1];
  }
}

/// The running softmax of the rows that a lane keeps, of its warp's keys; lanes that keep the same rows sum
/// different keys.
template <class Config>
struct DecodeSoftmax {
  float top[Config::kOwn], total[Config::kOwn] = {};

  __device__ DecodeSoftmax() {
    for (float& value : top) value = -INFINITY;
  }
  /// Makes weights of the dot products of a key with the lane's rows, for all lanes to read, and says what
  /// earlier sums are to be multiplied with. Every lane of the warp calls it.
  template <class K>
  __device__ __forceinline__ void add(const float* products, int key, const Range (&ranges)[Config::kOwn],
                                      const CacheStep<Config>& k, const CacheStep<Config>& v,
                                      const DecodeArgs<K>& args, typename Config::RowValues* weights) {
    const LaneOf<Config> lane;
    INGOT_UNROLL
    for (int o = 0; o < Config::kOwn; ++o) {
      const float score = ranges[o].holds(key) ? args.score_of(products[o] * k.scale) : -INFINITY;
      float higher = score;
      INGOT_UNROLL
      for (int apart = kWarp / 2; apart >= Config::kSharers; apart /= 2)
        higher = fmaxf(higher, __shfl_xor_sync(kAllLanes, higher, apart));
      higher = fmaxf(top[o], higher);
      const float base = higher == -INFINITY ? 0.0F : higher;  // nothing seen yet: weights are 0
      const float weight = fast_exp2(score - base), rescale = fast_exp2(top[o] - base);
      top[o] = higher;
      total[o] = fmaf(total[o], rescale, weight);
      if (!lane.writes()) continue;
      weights[lane.key()].values[lane.row() + o] = weight * v.scale;
      if (lane.key() == 0) weights[Config::kKeys].values[lane.row() + o] = rescale;
    }
  }
};

/// products[f · rows + r]: a lane's part of row r's dot product with key f of its own.
template <class Config>
__device__ __forceinline__ void multiply(float (&products)[Config::kFlight * Config::kRows],
                                         const Quad* queries, const CacheStep<Config>& k) {
  const LaneOf<Config> lane;
  INGOT_UNROLL
  for (int e = 0; e < Config::kElements; e += 4) {
    INGOT_UNROLL
    for (int r = 0; r < Config::kRows; ++r) {
      const Quad q = queries[(r * Config::kElements + e) / 4 * Config::kLanes + lane.in_key];
      INGOT_UNROLL
      for (int f = 0; f < Config::kFlight; ++f) {
        INGOT_UNROLL
        for (int i = 0; i < 4; ++i)
          products[f * Config::kRows + r] =
              fmaf(q.values[i], k.get(f, e + i), products[f * Config::kRows + r]);
      }
    }
  }
}

/// sums[r · elements + e] = rescale of row r · sums + Σ over the lane's keys of weight · value
template <class Config>
__device__ __forceinline__ void add_values(float (&sums)[Config::kRows * Config::kElements],
                                           const typename Config::RowValues* weights,
                                           const CacheStep<Config>& v) {
  const LaneOf<Config> lane;
  const typename Config::RowValues rescale = weights[Config::kKeys];
  INGOT_UNROLL
  for (int i = 0; i < Config::kRows * Config::kElements; ++i)
    sums[i] = __fmul_rn(sums[i], rescale.values[i / Config::kElements]);
  INGOT_UNROLL
  for (int f = 0; f < Config::kFlight; ++f) {
    const typename Config::RowValues weight = weights[f * Config::kSide + lane.side];
    INGOT_UNROLL
    for (int e = 0; e < Config::kElements; ++e) {
      const float value = v.get(f, e);
      INGOT_UNROLL
      for (int r = 0; r < Config::kRows; ++r)
        sums[r * Config::kElements + e] = fmaf(weight.values[r], value, sums[r * Config::kElements + e]);
    }
  }
}

/// Puts the warps' sums together and writes them: to scratch, or divided by their weights to out where there
/// is one part. Every thread of the block calls it, with a warp's sums shared out among its lanes.
template <class Config, class K>
__device__ void write_part(const float* sums, const DecodeSoftmax<Config>& softmax, const DecodeArgs<K>& args,
                           const DecodePosition& at, int part_number) {
  constexpr int kPitch = Config::kLanes + 1;  // so that neither way through the sums has bank conflicts
  constexpr int kLeft = Config::kRows * Config::kElements / Config::kSide;
  constexpr int kWarpSums = Config::kRows * Config::kElements * kPitch;
  INGOT_SHARED_ARRAY(float, all_sums, kDecodeWarps* kWarpSums);
  INGOT_SHARED_ARRAY(PartWeight, of_warps, kDecodeWarps * Config::kRows);
  INGOT_SHARED_ARRAY(float, factors, kDecodeWarps* Config::kRows);
  INGOT_SHARED_ARRAY(PartWeight, of_block, Config::kRows);
  const LaneOf<Config> lane;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  INGOT_UNROLL
  for (int i = 0; i < kLeft; ++i)
    all_sums[warp * kWarpSums + (lane.side * kLeft + i) * kPitch + lane.in_key] = sums[i];
  INGOT_UNROLL
  for (int o = 0; o < Config::kOwn; ++o) {
    if (lane.writes() && lane.key() == 0)
      of_warps[warp * Config::kRows + lane.row() + o] = {softmax.top[o], softmax.total[o]};
  }
  __syncthreads();
  if (const int row = static_cast<int>(threadIdx.x); row < Config::kRows) {
    float top = -INFINITY, total = 0;
    for (int w = 0; w < kDecodeWarps; ++w) top = fmaxf(top, of_warps[w * Config::kRows + row].top);
    for (int w = 0; w < kDecodeWarps; ++w) {
      const PartWeight mine = of_warps[w * Config::kRows + row];
      factors[w * Config::kRows + row] = factor_of(mine.top, top);
      total = fmaf(mine.total, factor_of(mine.top, top), total);
    }
    of_block[row] = {top, total};
  }
  __syncthreads();
  for (int row = 0; row < Config::kRows; ++row) {
    const DecodeRow where(args, at.chunk * Config::kRows + row, at.kv);
    if (where.query >= args.mask.queries) return;
    const PartWeight block = of_block[row];
    const PartOfQuery part(args, at.b, where, part_number);
    const bool nothing = args.parts == 1 && range_of(args.mask, at.b, where.query).empty();
    for (int c = static_cast<int>(threadIdx.x); c < args.dv; c += kDecodeThreads) {
      float sum = 0;
      for (int w = 0; w < kDecodeWarps; ++w)
        sum = fmaf(all_sums[w * kWarpSums + Config::sum_position(row, c, kPitch)],
                   factors[w * Config::kRows + row], sum);
      if (args.parts > 1) {
        part.sums[c] = sum;
      } else {
        args.out.write(nothing ? 0.0F : sum / block.total, at.b, where.query, where.head, c);
      }
    }
    if (threadIdx.x != 0) continue;
    if (args.parts > 1) *part.weight = block;
    if (args.parts == 1 && args.lse != nullptr) write_lse(args, at.b, where, nothing ? PartWeight{} : block);
  }
}

/// What the rows of a lane see, and from the first to the last key that some row of the block does.
template <class Config>
struct DecodeRanges {
  Range of_lane[Config::kOwn], any;

  template <class K>
  __device__ __forceinline__ DecodeRanges(const DecodeArgs<K>& args, const DecodePosition& at) {
    int lo = static_cast<int>(args.mask.keys), hi = 0;
    INGOT_UNROLL
    for (int o = 0; o < Config::kOwn; ++o) {
      const DecodeRow where(args, at.chunk * Config::kRows + LaneOf<Config>().row() + o, at.kv);
      const Range range = range_of(args.mask, at.b, where.query);
      of_lane[o] = range;
      if (range.empty()) continue;
      lo = range.lo < lo ? range.lo : lo;
      hi = range.hi > hi ? range.hi : hi;
    }
    any = {warp_least(lo), -warp_least(-hi)};  // a warp has all rows
  }
};

/// The keys and values of a warp's next step, which are asked for before those of this one are done with.
template <class Config>
struct NextStep {
  using K = typename Config::K;
  static constexpr int kStep = kDecodeWarps * Config::kKeys;  // of the block
  static_assert(kAttentionPartKeys % kStep == 0);
  const K *k_head, *v_head;
  const float *k_scales, *v_scales;
  CacheStep<Config> k, v;

  __device__ __forceinline__ NextStep(const DecodeArgs<K>& args, const DecodePosition& at)
      : k_head(args.key_head(at.b, at.kv)),
        v_head(args.value_head(at.b, at.kv)),
        k_scales(args.key_scales(at.b, at.kv)),
        v_scales(args.value_scales(at.b, at.kv)) {}
  /// The warp's first of the keys that are seen.
  __device__ __forceinline__ static int first_key(Range seen) {
    return seen.lo / kStep * kStep + static_cast<int>(threadIdx.x) / kWarp * Config::kKeys;
  }
  __device__ __forceinline__ void load_keys(const DecodeArgs<K>& args, int j, Range there) {
    k.load(k_head, args.k.strides[1], args.d, k_scales, j, there);
  }
  __device__ __forceinline__ void load_values(const DecodeArgs<K>& args, int j, Range there) {
    v.load(v_head, args.v.strides[1], args.dv, v_scales, j, there);
  }
  __device__ __forceinline__ void load_first(const DecodeArgs<K>& args, Range seen) {
    load_keys(args, first_key(seen), seen);
    load_values(args, first_key(seen), seen);
  }
};

/// The work of a warp on its keys of a part: the weighted sums, each lane's of its columns, with the softmax
/// of all its keys in the lanes of the first. The part's first step has been asked for, and at its end that
/// of what is seen of the `next` one is, so that memory is not idle while the sums are put together.
template <class Config, class K>
__device__ __forceinline__ void attend_to_part(float (&sums)[Config::kRows * Config::kElements],
                                               DecodeSoftmax<Config>& softmax,
                                               const DecodeRanges<Config>& ranges, Range seen, Range next,
                                               NextStep<Config>& step, const Quad* queries,
                                               typename Config::RowValues* weights,
                                               const DecodeArgs<K>& args) {
  constexpr int kStep = NextStep<Config>::kStep;
  int j = NextStep<Config>::first_key(seen);
  if (j >= seen.hi) step.load_first(args, next);
  for (; j < seen.hi; j += kStep) {  // the same for a whole warp
    float products[Config::kFlight * Config::kRows] = {};
    multiply<Config>(products, queries, step.k);
    share_sums<Config::kLanes, 1, Config::kFlight * Config::kRows>(products);
    softmax.add(products, j + LaneOf<Config>().key(), ranges.of_lane, step.k, step.v, args, weights);
    const bool last = j + kStep >= seen.hi;
    const int to = last ? NextStep<Config>::first_key(next) : j + kStep;
    const Range there = last ? next : seen;
    step.load_keys(args, to, there);  // while the values are added
    __syncwarp();
    add_values<Config>(sums, weights, step.v);
    step.load_values(args, to, there);
    __syncwarp();  // the weights have been read
  }
  INGOT_UNROLL
  for (float& total : softmax.total) {
    INGOT_UNROLL
    for (int apart = kWarp / 2; apart >= Config::kSharers; apart /= 2)
      total += __shfl_xor_sync(kAllLanes, total, apart);
  }
  share_sums<Config::kSide, Config::kLanes, Config::kRows * Config::kElements>(sums);
}

template <class Config>
__global__ void __launch_bounds__(kDecodeThreads)
    decode_kernel(const __grid_constant__ DecodeArgs<typename Config::K> args) {
  INGOT_SHARED_ARRAY(Quad, queries, Config::kRows * Config::kWidth / 4);
  INGOT_SHARED_ARRAY(typename Config::RowValues, all_weights, kDecodeWarps * (Config::kKeys + 1));
  typename Config::RowValues* const weights =
      all_weights + static_cast<int>(threadIdx.x) / kWarp * (Config::kKeys + 1);
  const DecodePosition at(args.chunks, args.part_blocks, args.kv_heads);
  const DecodeRanges<Config> ranges(args, at);
  const auto seen_of = [&](int part) {
    return part < args.parts ? within_part(ranges.any, part * args.part_keys, args.part_keys) : Range{};
  };
  const auto part_from = [&](int part) {  // the same for the whole block
    while (args.parts > 1 && part < args.parts && seen_of(part).empty()) part += args.part_blocks;
    return part;
  };
  int part = part_from(at.part);
  if (part >= args.parts) return;
  NextStep<Config> step(args, at);
  step.load_first(args, seen_of(part));
  load_queries<Config>(queries, args, at);
  while (part < args.parts) {
    __syncthreads();  // the queries are there, and the sums of the part before have been read
    const int next = part_from(part + args.part_blocks);
    float sums[Config::kRows * Config::kElements] = {};
    DecodeSoftmax<Config> softmax;
    attend_to_part(sums, softmax, ranges, seen_of(part), seen_of(next), step, queries, weights, args);
    write_part<Config>(sums, softmax, args, at, part);
    part = next;
  }
}

constexpr int kMergeThreads = 512, kMergeWarps = kMergeThreads / kWarp;

/// out of one query of a head for each block, from its parts: each warp takes every 16th.
template <class K>
__global__ void __launch_bounds__(kMergeThreads)
    merge_parts_kernel(const __grid_constant__ DecodeArgs<K> args) {
  constexpr int kQuads = static_cast<int>(kWidestDecode) / (4 * kWarp);
  INGOT_SHARED_ARRAY(float, sums, kMergeWarps* kWidestDecode);
  INGOT_SHARED_ARRAY(float, totals, kMergeWarps);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const BlockPosition position(args.mask.queries, args.kv_heads * args.group);
  const DecodeRow where(position.tile, position.h);
  const Range range = range_of(args.mask, position.b, where.query);
  if (range.empty()) {
    for (int c = static_cast<int>(threadIdx.x); c < args.dv; c += kMergeThreads)
      args.out.write(0.0F, position.b, where.query, where.head, c);
    if (args.lse != nullptr && threadIdx.x == 0) write_lse(args, position.b, where, PartWeight{});
    return;
  }
  const int first = range.lo / args.part_keys, last = (range.hi - 1) / args.part_keys;
  float top = -INFINITY;
  for (int p = first + static_cast<int>(threadIdx.x); p <= last; p += kMergeThreads)
    top = fmaxf(top, PartOfQuery(args, position.b, where, p).weight->top);
  top = ThreadGroup<kMergeThreads>::max(top);
  Quad mine[kQuads] = {};
  float total = 0;
  for (int p = first + warp; p <= last; p += kMergeWarps) {
    const PartOfQuery part(args, position.b, where, p);
    Quad values[kQuads] = {};
    INGOT_UNROLL
    for (int i = 0; i < kQuads; ++i)
      if (4 * (i * kWarp + lane) < args.dv) values[i] = load_vector<4>(part.sums + 4 * (i * kWarp + lane));
    const PartWeight weight = *part.weight;
    const float factor = factor_of(weight.top, top);
    total = fmaf(weight.total, factor, total);
    INGOT_UNROLL
    for (int i = 0; i < 4 * kQuads; ++i)
      mine[i / 4].values[i % 4] = fmaf(values[i / 4].values[i % 4], factor, mine[i / 4].values[i % 4]);
  }
  INGOT_UNROLL
  for (int i = 0; i < 4 * kQuads; ++i)
    sums[warp * kWidestDecode + 4 * (i / 4 * kWarp + lane) + i % 4] = mine[i / 4].values[i % 4];
  if (lane == 0) totals[warp] = total;
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < args.dv; c += kMergeThreads) {
    float sum = 0, weight = 0;
    for (int w = 0; w < kMergeWarps; ++w) {
      sum += sums[w * kWidestDecode + c];
      weight += totals[w];
    }
    args.out.write(sum / weight, position.b, where.query, where.head, c);
    if (c == 0 && args.lse != nullptr) write_lse(args, position.b, where, PartWeight{top, weight});
  }
}

template <class K, int width, int rows>
void launch_decode(const AttentionArgs& args, Stream stream) {
  using Config = DecodeConfig<K, width, rows>;
  const DecodeArgs<K> kernel_args(args, rows);
  const LaunchSite site{"attention", stream, args.q};
  const std::int64_t blocks =
      args.q.dim(0) * kernel_args.kv_heads * kernel_args.part_blocks * std::int64_t{kernel_args.chunks};
  launch(site, decode_kernel<Config>, Size3{static_cast<unsigned>(blocks)}, Size3{kDecodeThreads}, 0,
         kernel_args);
  if (kernel_args.parts > 1)
    launch(site, merge_parts_kernel<K>, grid_of_tiles(args.q, args.q.dim(2), 1), Size3{kMergeThreads}, 0,
           kernel_args);
}

void run_decode(const AttentionArgs& args, Stream stream) {
  if (args.out.numel() == 0) return;
  const std::int64_t rows = args.q.dim(1) * (args.q.dim(2) / args.k.dim(2));
  const std::int64_t width = std::max(args.q.dim(3), args.v.dim(3));
  dispatch_cache(args.k.dtype, "attention", [&]<class K>() {
    const auto with_rows = [&]<int wide>() {
      if (rows == 1) return launch_decode<K, wide, 1>(args, stream);
      if constexpr (!std::is_same_v<K, std::int8_t>)
        if (rows > 4) return launch_decode<K, wide, 8>(args, stream);
      launch_decode<K, wide, 4>(args, stream);
    };
    if (width <= 64) return with_rows.template operator()<64>();
    if (width <= 128) return with_rows.template operator()<128>();
    with_rows.template operator()<256>();
  });
}

/// Whether rows can be read 16 bytes, and queries 8 elements at a time.
bool in_vectors(const View& heads) {
  const auto bytes = static_cast<std::int64_t>(byte_size(heads.dtype));
  if (heads.dim(3) > kWidestDecode || heads.dim(3) % 8 != 0 || heads.dim(3) * bytes % 16 != 0) return false;
  if (reinterpret_cast<std::uintptr_t>(heads.data) % 16 != 0) return false;
  for (int i = 0; i < 3; ++i)
    if (heads.dim(i) > 1 && heads.stride(i) * bytes % 16 != 0) return false;
  return true;
}

}  // namespace

void register_decode_attention() {
  attention.add(DeviceType::cuda, {"decode", ImplKind::cuda,
                                   [](const AttentionArgs& args) {
                                     return args.q.dim(1) <= kFewQueries && args.out.dtype == args.q.dtype &&
                                            is_cache_for(args.q, args.k, args.v) && in_vectors(args.q) &&
                                            in_vectors(args.k) && in_vectors(args.v);
                                   },
                                   run_decode});
}

}  // namespace ingot::kernels::cuda
