#pragma once

#include "ingot/kernels/cuda/attention/attention_parts.h"
#include "ingot/kernels/cuda/device/row_vectors.h"
#include "ingot/kernels/cuda/device/tensor_core.h"
#include "ingot/kernels/cuda/hardware/global_memory.h"

// How the threads of attention's kernel for few queries (decode_attention.cu) share keys, values and sums.
namespace ingot::kernels::cuda {

inline constexpr int kDecodeThreads = 128, kDecodeWarps = kDecodeThreads / kWarp;
/// So many blocks fill a GPU a few times; where there are more parts, each takes several. Most of them leave
/// at once where a cache is far from full, which is quick, but not for tens of thousands.
inline constexpr std::int64_t kDecodeBlocks = 1024;
inline constexpr std::int64_t kWidestDecode = 256;

using Quad = Vector<float, 4>;

/// int8 as registers hold them, four in one.
template <int count>
struct Elements<std::int8_t, count> {
  Vector<std::uint32_t, count / 4> vector;
  __device__ __forceinline__ void load(const std::int8_t* from) {
    vector = bits_as<Vector<std::uint32_t, count / 4>>(load_vector<count>(from));
  }
  /// As the last bits of a float of 2^23 and more; a conversion would take four times as long.
  __device__ __forceinline__ float get(int i) const {
    const std::uint32_t above = vector.values[i / 4] ^ 0x80808080U;  // plus 128
    const std::uint32_t bits = __byte_perm(above, 0x4b000000U, 0x7440U + static_cast<unsigned>(i) % 4);
    return bits_as<float>(bits) - 8388736.0F;
  }
};

/// How a warp reads keys of up to `width` elements of K for `rows` queries: each lane 16 bytes of a key at a
/// time (twice where a key is wider than the warp), keys at once where it is narrower, and several of
/// them one behind the other under way at once. Sums are at most 64 in each lane.
template <class K_, int width, int rows>
struct DecodeConfig {
  using K = K_;
  using RowValues = Vector<float, rows>;
  static constexpr int kWidth = width, kRows = rows;
  static constexpr int kVec = kVector<K>;
  static constexpr int kLanes = width / kVec < kWarp ? width / kVec : kWarp;  ///< of a key
  static constexpr int kVectors = width / (kVec * kLanes);                    ///< of a key in a lane
  static constexpr int kElements = kVec * kVectors;
  static constexpr int kSide = kWarp / kLanes;                        ///< keys that a warp reads at once
  static constexpr int kFlight = 4 / kVectors;                        ///< keys one behind the other
  static constexpr int kKeys = kSide * kFlight;                       ///< of a step
  static constexpr int kSharers = kLanes / kFlight;                   ///< lanes that share the rows of a key
  static constexpr int kOwn = rows > kSharers ? rows / kSharers : 1;  ///< rows whose softmax a lane has
  static constexpr int kTwins = rows < kSharers ? kSharers / rows : 1;  ///< lanes that have the same
  static_assert(kSharers >= 1 && rows * kElements <= 64 && rows * kElements % kSide == 0);

  /// Where the lanes' quads of a row's columns from `column` on are; neighbours lie beside each other.
  __device__ static int query_position(int row, int column) {
    const int vector = column / (kVec * kLanes), lane = column / kVec % kLanes;
    const int quad = (vector * kVec + column % kVec) / 4;
    return (row * (kElements / 4) + quad) * kLanes + lane;
  }
  /// Where a column's sum is that lane l of a key's has as its i-th at i · pitch + l.
  __device__ static int sum_position(int row, int column, int pitch) {
    const int vector = column / (kVec * kLanes), lane = column / kVec % kLanes;
    return (row * kElements + vector * kVec + column % kVec) * pitch + lane;
  }
};

/// What of a step a lane has: the scores of one key with some rows, once share_sums has shared them out.
template <class Config>
struct LaneOf {
  int in_key, side;  ///< which of the lanes of a key, and of which of the keys read at once

  __device__ LaneOf() {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    in_key = lane % Config::kLanes;
    side = lane / Config::kLanes;
  }
  __device__ int key() const { return in_key / Config::kSharers * Config::kSide + side; }
  __device__ int row() const { return in_key % Config::kSharers / Config::kTwins * Config::kOwn; }
  /// One of the lanes that have the same.
  __device__ bool writes() const { return in_key % Config::kTwins == 0; }
};

/// A warp's keys, or values, of a step: of a lane its vectors of each, and the scale of the key whose scores
/// it will have.
template <class Config>
struct CacheStep {
  using K = typename Config::K;
  Elements<K, Config::kVec> vectors[Config::kFlight][Config::kVectors];
  float scale = 1.0F;

  /// Asks for rows j.. of a head, `stride` apart and of `size` elements; zeros where `there` does not hold.
  __device__ __forceinline__ void load(const K* head, std::int64_t stride, std::int64_t size,
                                       const float* scales, int j, Range there) {
    const LaneOf<Config> lane;
    if (size == Config::kWidth && there.covers(j, Config::kKeys)) {  // nearly always: nothing to compare
      const K* from = head + (j + lane.side) * stride + lane.in_key * Config::kVec;
      INGOT_UNROLL
      for (int f = 0; f < Config::kFlight; ++f) {
        INGOT_UNROLL
        for (int p = 0; p < Config::kVectors; ++p)
          vectors[f][p] = load_once<Elements<K, Config::kVec>>(from + p * (Config::kLanes * Config::kVec));
        from += Config::kSide * stride;
      }
    } else {
      load_some(head, stride, size, j, there);
    }
    if constexpr (std::is_same_v<K, std::int8_t>)
      scale = scales != nullptr && there.holds(j + lane.key()) ? scales[j + lane.key()] : 1.0F;
  }
  /// The rows that are there and the columns that they have.
  __device__ __forceinline__ void load_some(const K* head, std::int64_t stride, std::int64_t size, int j,
                                            Range there) {
    const LaneOf<Config> lane;
    INGOT_UNROLL
    for (int f = 0; f < Config::kFlight; ++f) {
      const int key = j + f * Config::kSide + lane.side;
      INGOT_UNROLL
      for (int p = 0; p < Config::kVectors; ++p) {
        const int column = (p * Config::kLanes + lane.in_key) * Config::kVec;
        vectors[f][p] = {};
        if (there.holds(key) && column < size)
          vectors[f][p] = load_once<Elements<K, Config::kVec>>(head + key * stride + column);
      }
    }
  }
  __device__ __forceinline__ float get(int f, int element) const {
    return vectors[f][element / Config::kVec].get(element % Config::kVec);
  }
};

/// [B, length, heads, width] of f32, bf16 or f16, of which a kernel reads or writes little: so it asks each
/// time in which, and is not compiled for all of them.
struct AnyHeads {
  Heads<char> bytes;
  DType dtype;
  int size;

  explicit AnyHeads(const View& view)
      : bytes(view), dtype(view.dtype), size(static_cast<int>(byte_size(view.dtype))) {}

  __device__ std::int64_t position(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return b * bytes.strides[0] + i * bytes.strides[1] + h * bytes.strides[2];
  }
  /// Eight neighbours at a multiple of 16 bytes.
  __device__ __forceinline__ void read(Quad (&to)[2], std::int64_t b, std::int64_t i, std::int64_t h,
                                       int column) const {
    const char* from = bytes.data + (position(b, i, h) + column) * size;
    if (dtype == DType::f32) {
      to[0] = load_vector<4>(reinterpret_cast<const float*>(from));
      to[1] = load_vector<4>(reinterpret_cast<const float*>(from) + 4);
    } else if (dtype == DType::bf16) {
      read_half<bfloat_t>(to, from);
    } else {
      read_half<half_t>(to, from);
    }
  }
  __device__ __forceinline__ void write(float value, std::int64_t b, std::int64_t i, std::int64_t h,
                                        int column) const {
    char* to = bytes.data + (position(b, i, h) + column) * size;
    if (dtype == DType::f32) *reinterpret_cast<float*>(to) = value;
    if (dtype == DType::bf16) *reinterpret_cast<bfloat_t*>(to) = from_float<bfloat_t>(value);
    if (dtype == DType::f16) *reinterpret_cast<half_t*>(to) = from_float<half_t>(value);
  }

 private:
  template <class T>
  __device__ __forceinline__ static void read_half(Quad (&to)[2], const char* from) {
    Elements<T, 8> eight;
    eight.load(reinterpret_cast<const T*>(from));
    INGOT_UNROLL
    for (int e = 0; e < 8; ++e) to[e / 4].values[e % 4] = eight.get(e);
  }
};

/// The largest score of a part, to the base 2, and its Σ weight.
struct PartWeight {
  float top, total;
};
/// What a part is multiplied with where `top` is the largest score of all.
__device__ __forceinline__ float factor_of(float part_top, float top) {
  return fast_exp2(part_top - (top == -INFINITY ? 0.0F : top));
}

/// What the kernels are given of AttentionArgs. K: of keys and values.
template <class K>
struct DecodeArgs {
  AnyHeads q, out;
  Heads<const K> k, v;
  RowScales k_scales, v_scales;
  const CacheEntry* caches;  ///< instead of k, v and scales, or null
  Mask mask;
  float* part_sums;          ///< scratch: [B, Hq, S, parts, Dv]
  PartWeight* part_weights;  ///< and behind it [B, Hq, S, parts]
  int kv_heads, group, d, dv;
  int parts, part_keys, part_blocks;  ///< part_blocks: how many blocks share the parts
  int chunks;                         ///< of the queries of a group, `rows` in each
  float factor, cap;                  ///< of scores to the base 2; cap 0: none
  float* lse;                         ///< [B, Hq, S]; or null

  DecodeArgs(const AttentionArgs& args, int rows)
      : q(args.q),
        out(args.out),
        k(args.k),
        v(args.v),
        k_scales(args.k_scale),
        v_scales(args.v_scale),
        caches(args.caches.as<CacheEntry>()),
        mask(args.mask, args.q.dim(1), args.k.dim(1)),
        part_sums(args.scratch.as<float>()),
        part_weights(nullptr),
        kv_heads(static_cast<int>(args.k.dim(2))),
        group(static_cast<int>(args.q.dim(2) / args.k.dim(2))),
        d(static_cast<int>(args.q.dim(3))),
        dv(static_cast<int>(args.v.dim(3))),
        factor(args.softcap > 0.0F ? args.scale / args.softcap : args.scale * kLog2E),
        cap(args.softcap > 0.0F ? args.softcap * kLog2E : 0.0F),
        lse(args.lse.as<float>()) {
    const bool split = part_sums != nullptr && args.k.dim(1) > kAttentionPartKeys;
    const std::int64_t keys = split ? kAttentionPartKeys : args.k.dim(1);
    part_keys = static_cast<int>(keys);
    parts = split ? static_cast<int>((args.k.dim(1) + keys - 1) / keys) : 1;
    chunks = static_cast<int>(tiles_of(args.q.dim(1) * group, rows));
    const std::int64_t rounds =
        (args.q.dim(0) * kv_heads * chunks * parts + kDecodeBlocks - 1) / kDecodeBlocks;
    part_blocks = static_cast<int>((parts + rounds - 1) / rounds);
    const std::int64_t queries = args.q.dim(0) * args.q.dim(1) * args.q.dim(2);
    if (split) part_weights = reinterpret_cast<PartWeight*>(part_sums + queries * parts * dv);
  }

  __device__ const K* key_head(std::int64_t b, std::int64_t h) const {
    return caches == nullptr ? k.head(b, h)
                             : static_cast<const K*>(caches[b].keys) + h * caches[b].capacity * d;
  }
  __device__ const K* value_head(std::int64_t b, std::int64_t h) const {
    return caches == nullptr ? v.head(b, h)
                             : static_cast<const K*>(caches[b].values) + h * caches[b].capacity * dv;
  }
  /// Null where rows are as they are.
  __device__ const float* key_scales(std::int64_t b, std::int64_t h) const {
    if (caches == nullptr) return k_scales.head(b, h);
    return caches[b].key_scales == nullptr ? nullptr : caches[b].key_scales + h * caches[b].capacity;
  }
  __device__ const float* value_scales(std::int64_t b, std::int64_t h) const {
    if (caches == nullptr) return v_scales.head(b, h);
    return caches[b].value_scales == nullptr ? nullptr : caches[b].value_scales + h * caches[b].capacity;
  }
  /// Rounded at once, not contracted with a difference: the largest score's weight is exactly 1.
  __device__ __forceinline__ float score_of(float product) const {
    const float score = __fmul_rn(product, factor);
    return cap == 0.0F ? score : __fmul_rn(cap, tanhf(score));
  }
};

/// A query of a head.
struct DecodeRow {
  int query, head;

  __device__ DecodeRow(int query_, int head_) : query(query_), head(head_) {}
  /// The row-th of those that read the keys of head `kv`; beyond the last query: there is none.
  template <class K>
  __device__ DecodeRow(const DecodeArgs<K>& args, int row, int kv)
      : query(row / args.group), head(kv * args.group + row - query * args.group) {}
};

/// log Σ exp(score) of a query, of scores to the base 2.
template <class K>
__device__ __forceinline__ void write_lse(const DecodeArgs<K>& args, std::int64_t b, const DecodeRow& where,
                                          PartWeight of_all) {
  constexpr float kLn2 = 0.693147181F;
  const std::int64_t head = b * args.kv_heads * args.group + where.head;
  args.lse[head * args.mask.queries + where.query] =
      of_all.total > 0 ? (of_all.top + log2f(of_all.total)) * kLn2 : -INFINITY;
}

/// Where scratch has what a part gives a query.
struct PartOfQuery {
  float* sums;
  PartWeight* weight;

  template <class K>
  __device__ PartOfQuery(const DecodeArgs<K>& args, std::int64_t b, const DecodeRow& where, int part) {
    const std::int64_t head = b * args.kv_heads * args.group + where.head;
    const std::int64_t at = (head * args.mask.queries + where.query) * args.parts + part;
    sums = args.part_sums + at * args.dv;
    weight = args.part_weights + at;
  }
};

/// What of a range is in the part of `keys` keys from `begin` on.
__device__ __forceinline__ Range within_part(Range range, int begin, int keys) {
  return {range.lo > begin ? range.lo : begin, range.hi < begin + keys ? range.hi : begin + keys};
}

}  // namespace ingot::kernels::cuda
