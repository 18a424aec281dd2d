#include "ingot/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/attention_ranges.h"
#include "ingot/kernels/cpu/attention_tile.h"
#include "ingot/kernels/cpu/bf16_pairs.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/attention-inl.h"
#include "ingot/kernels/cpu/simd/dot-inl.h"
#include "ingot/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// One row of scores: the running maximum and sum, and how what was summed so far must be rescaled.
struct RowState {
  float top, sum, rescale;
};

// 2^x of a score less the top one; 0 where that adds nothing to a sum with a 1 in it. Products of smaller
// numbers with values would be denormal, each of which takes the processor a hundred cycles.
template <class V>
HWY_INLINE V weight_of(V x) {
  const hn::DFromV<V> d;
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -80.0F)), exp2(x));  // NaN stays
}

// scores[begin, end) become 2^(score − top); the rest of [0, width) becomes 0.
HWY_INLINE void softmax_row(float* s, std::int64_t begin, std::int64_t end, std::int64_t width,
                            RowState& row) {
  const hn::ScalableTag<float> d;
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto top = lowest;
  for_lanes(
      begin, end, [&](std::int64_t i) HWY_ATTR { top = hn::Max(top, hn::LoadU(d, s + i)); },
      [&](std::int64_t i, auto inside)
          HWY_ATTR { top = hn::Max(top, hn::IfThenElse(inside, hn::LoadU(d, s + i), lowest)); });
  const float new_top = std::max(row.top, hn::GetLane(hn::MaxOfLanes(d, top)));
  row.rescale = row.sum > 0.0F ? std::exp2(row.top - new_top) : 0.0F;
  const auto shift = hn::Set(d, new_top);
  auto sum = hn::Zero(d);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i + lanes <= begin; i += lanes) hn::StoreU(hn::Zero(d), d, s + i);
  for_lanes(
      begin, end,
      [&](std::int64_t i) HWY_ATTR {
        const auto e = weight_of(hn::Sub(hn::LoadU(d, s + i), shift));
        sum = hn::Add(sum, e);
        hn::StoreU(e, d, s + i);
      },
      [&](std::int64_t i, auto inside) HWY_ATTR {
        const auto e = hn::IfThenElseZero(inside, weight_of(hn::Sub(hn::LoadU(d, s + i), shift)));
        sum = hn::Add(sum, e);
        hn::StoreU(e, d, s + i);
      });
  for (std::int64_t i = round_up(end, lanes); i < width; i += lanes) hn::StoreU(hn::Zero(d), d, s + i);
  row.sum = row.sum * row.rescale + hn::GetLane(hn::SumOfLanes(d, sum));
  row.top = new_top;
}

HWY_INLINE void scale_row(float* x, std::int64_t n, float factor) {
  const hn::ScalableTag<float> d;
  const auto f = hn::Set(d, factor);
  for (std::int64_t i = 0; i < n; i += static_cast<std::int64_t>(hn::Lanes(d)))
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), f), d, x + i);
}

// s[j] *= factor[j] over a range
HWY_INLINE void multiply_row(float* s, const float* factor, KeyRange range) {
  const hn::ScalableTag<float> d;
  for_lanes(
      range.lo, range.hi,
      [&](std::int64_t i)
          HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, s + i), hn::LoadU(d, factor + i)), d, s + i); },
      [&](std::int64_t i, auto inside) HWY_ATTR {
        const auto x = hn::LoadU(d, s + i);
        hn::StoreU(hn::IfThenElse(inside, hn::Mul(x, hn::MaskedLoad(inside, d, factor + i)), x), d, s + i);
      });
}

// score = cap·log2(e)·tanh(score)
HWY_INLINE void cap_row(float* s, std::int64_t n, float cap) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, cap * 1.44269504F);
  for (std::int64_t i = 0; i < n; i += static_cast<std::int64_t>(hn::Lanes(d)))
    hn::StoreU(hn::Mul(factor, tanh(hn::LoadU(d, s + i))), d, s + i);
}

// Rows [row, row + count) of a tile against its keys [first, last): scores, softmax, and values added to out.
void forward_group(const ForwardTile& t, RowState* rows, std::int64_t row, std::int64_t count,
                   std::int64_t first, std::int64_t last) {
  KeyRange blocks[kGroupRows / kBlockRows];
  const std::int64_t block_count = (count + kBlockRows - 1) / kBlockRows;
  KeyRange all{last, first};
  for (std::int64_t i = 0; i < block_count; ++i) {
    const std::int64_t at = i * kBlockRows;
    blocks[i] = seen_keys(t.ranges + row + at, std::min(kBlockRows, count - at), first, last);
    if (blocks[i].empty()) continue;
    all = {std::min(all.lo, blocks[i].lo), std::max(all.hi, blocks[i].hi)};
  }
  if (all.empty()) return;
  const std::int64_t begin = all.lo / kPanel * kPanel, width = round_up(all.hi, kPanel) - begin;
  const std::int64_t word = t.pairs != nullptr ? 2 : 1;  // numbers in what the matmuls count
  const auto multiply = [&](const SmallGemm& g, std::int64_t i) HWY_ATTR {
    const std::int64_t at = i * kBlockRows, block_rows = std::min(kBlockRows, count - at);
    t.pairs != nullptr ? t.pairs->multiply(g, at, block_rows) : small_row_block(g, at, block_rows);
  };
  for (std::int64_t key = begin; key < all.hi; key += kPanel) {
    SmallGemm g{.k = (t.depth + word - 1) / word, .a = t.q + row * t.head_size, .a_row = t.head_size};
    g.b = t.keys + key * t.head_size / word, g.ldb = kPanel;
    g.c = t.scores + (key - begin), g.ldc = kTileKeys;
    for (std::int64_t i = 0; i < block_count; ++i) {
      if (blocks[i].lo >= key + kPanel || blocks[i].hi <= key) continue;
      g.n = std::min(kPanel, round_up(blocks[i].hi - key, kColumns));
      multiply(g, i);
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    float* s = t.scores + i * kTileKeys;
    const KeyRange range = t.ranges[row + i];
    const std::int64_t from = std::max(range.lo, begin) - begin, to = std::min(range.hi, all.hi) - begin;
    if (from >= to) {
      std::fill_n(s, width, 0.0F);
      continue;
    }
    if (t.softcap > 0.0F) cap_row(s, round_up(to, kColumns), t.softcap);
    softmax_row(s, from, to, width, rows[row + i]);
    float* out = t.out + (row + i) * t.value_size;
    if (rows[row + i].rescale != 1.0F) scale_row(out, t.value_size, rows[row + i].rescale);
    if (t.pairs != nullptr) t.pairs->round(s, s, width);
  }
  for (std::int64_t key = begin; key < all.hi; key += kPanel) {
    SmallGemm g{.n = t.value_size, .a = t.scores + (key - begin) / word, .a_row = kTileKeys};
    g.b = t.values + key / word * t.value_size, g.ldb = t.value_size;
    g.c = t.out + row * t.value_size, g.ldc = t.value_size, g.accumulate = true;
    for (std::int64_t i = 0; i < block_count; ++i) {
      if (blocks[i].lo >= key + kPanel || blocks[i].hi <= key) continue;
      g.k = (std::min(kPanel, blocks[i].hi - key) + word - 1) / word;
      multiply(g, i);
    }
  }
}

// out[r] += Σ_j p[r][j]·v[j] for R rows and V vectors of columns.
template <int R, int V, class T>
HWY_INLINE void weigh_block(const DecodeHead& h, std::int64_t row, std::int64_t col, KeyRange keys) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  float* out = h.out + row * h.value_size + col;
  const float* p = h.scores + row * h.score_stride;
  const std::int64_t p_stride = h.score_stride, v_stride = h.v_stride;
  hn::Vec<D> sum[R][V];
  INGOT_UNROLL
  for (int r = 0; r < R; ++r) {
    INGOT_UNROLL
    for (int v = 0; v < V; ++v) sum[r][v] = hn::LoadU(d, out + r * h.value_size + v * lanes);
  }
  const T* value = static_cast<const T*>(h.v) + keys.lo * v_stride + col;
  for (std::int64_t j = keys.lo; j < keys.hi; ++j, value += v_stride) {
    hn::Vec<D> w[V];
    INGOT_UNROLL
    for (int v = 0; v < V; ++v) w[v] = load_lanes(d, value + v * lanes);
    INGOT_UNROLL
    for (int r = 0; r < R; ++r) {
      const auto x = hn::Set(d, p[r * p_stride + j]);
      INGOT_UNROLL
      for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(x, w[v], sum[r][v]);
    }
  }
  INGOT_UNROLL
  for (int r = 0; r < R; ++r) {
    INGOT_UNROLL
    for (int v = 0; v < V; ++v) hn::StoreU(sum[r][v], d, out + r * h.value_size + v * lanes);
  }
}

template <int R, class T>
void weigh_rows(const DecodeHead& h, std::int64_t row, KeyRange keys) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  std::int64_t col = 0;
  for (; col + 4 * lanes <= h.value_size; col += 4 * lanes) weigh_block<R, 4, T>(h, row, col, keys);
  for (; col < h.value_size; col += lanes) weigh_block<R, 1, T>(h, row, col, keys);
}

template <class T>
void decode_keys(const DecodeHead& h) {
  const KeyRange all = seen_keys(h.ranges, h.rows, 0, h.score_stride);
  const T* k = static_cast<const T*>(h.k);
  std::int64_t j = all.lo;
  for (; j + 4 <= all.hi; j += 4) {
    dot_rows<4>(h.rows, h.head_size, h.q, h.head_size, k + j * h.k_stride, h.k_stride, h.scores + j,
                h.score_stride);
  }
  for (; j < all.hi; ++j) {
    dot_rows<1>(h.rows, h.head_size, h.q, h.head_size, k + j * h.k_stride, h.k_stride, h.scores + j,
                h.score_stride);
  }
  float inverse[kDecodeRows];
  for (std::int64_t i = 0; i < h.rows; ++i) {
    RowState row{-std::numeric_limits<float>::infinity(), 0.0F, 0.0F};
    float* s = h.scores + i * h.score_stride;
    const KeyRange range = h.ranges[i];
    if (h.k_scale != nullptr) multiply_row(s, h.k_scale, range);
    if (h.softcap > 0.0F) cap_row(s, h.score_stride, h.softcap);
    if (!range.empty()) softmax_row(s, range.lo, range.hi, h.score_stride, row);
    if (range.empty()) std::fill_n(s, h.score_stride, 0.0F);
    if (h.v_scale != nullptr) multiply_row(s, h.v_scale, range);
    inverse[i] = row.sum > 0.0F ? 1.0F / row.sum : 0.0F;
    h.lse[i] = (row.top + std::log2(row.sum)) * kLn2;
  }
  std::fill_n(h.out, h.rows * h.value_size, 0.0F);
  constexpr std::int64_t kPiece = 64;  // values of this many positions stay in L1 for all rows
  for (std::int64_t first = all.lo; first < all.hi; first += kPiece) {
    const KeyRange piece{first, std::min(first + kPiece, all.hi)};
    std::int64_t i = 0;
    for (; i + 4 <= h.rows; i += 4) weigh_rows<4, T>(h, i, piece);
    for (; i < h.rows; ++i) weigh_rows<1, T>(h, i, piece);
  }
  for (std::int64_t i = 0; i < h.rows; ++i) scale_row(h.out + i * h.value_size, h.value_size, inverse[i]);
}

void decode_head(const DecodeHead& h) {
  if (h.dtype == DType::f32) return decode_keys<float>(h);
  if (h.dtype == DType::bf16) return decode_keys<bf16>(h);
  if (h.dtype == DType::i8) return decode_keys<std::int8_t>(h);
  decode_keys<f16>(h);
}

void forward_tile(const ForwardTile& t) {
  const std::int64_t dvp = t.value_size;
  RowState rows[kTileRows];
  std::int64_t lo = t.ranges[0].lo, hi = 0;
  for (std::int64_t i = 0; i < t.rows; ++i) {
    rows[i] = {-std::numeric_limits<float>::infinity(), 0.0F, 0.0F};
    if (t.ranges[i].empty()) continue;
    lo = hi == 0 ? t.ranges[i].lo : std::min(lo, t.ranges[i].lo);
    hi = std::max(hi, t.ranges[i].hi);
  }
  std::fill_n(t.out, t.rows * dvp, 0.0F);
  for (std::int64_t first = lo / kPanel * kPanel; first < hi; first += kTileKeys) {
    const std::int64_t last = std::min(first + kTileKeys, round_up(hi, kPanel));
    for (std::int64_t row = 0; row < t.rows; row += kGroupRows) {
      forward_group(t, rows, row, std::min(kGroupRows, t.rows - row), first, last);
    }
  }
  for (std::int64_t i = 0; i < t.rows; ++i) {
    const RowState& row = rows[i];
    if (row.sum > 0.0F) scale_row(t.out + i * dvp, dvp, 1.0F / row.sum);
    if (t.lse != nullptr) t.lse[i] = (row.top + std::log2(row.sum)) * kLn2;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(forward_tile);
HWY_EXPORT(decode_head);

bool adjacent(const View& x) { return x.stride(3) == 1 || x.dim(3) == 1; }

bool accepts(const AttentionArgs& args) {
  const bool scales_adjacent = !args.k_scale || (args.k_scale.stride(1) == 1 && args.v_scale.stride(1) == 1);
  return args.q.dtype != DType::f64 && args.v.dtype == args.k.dtype && scales_adjacent && adjacent(args.q) &&
         adjacent(args.k) && adjacent(args.v) && adjacent(args.out) && args.q.numel() > 0 &&
         args.v.numel() > 0;
}

// Few queries: keys and values are not worth packing, reading them once is all the work.
bool accepts_decode(const AttentionArgs& args) {
  const std::int64_t rows = args.q.dim(1) * (args.q.dim(2) / args.k.dim(2));
  return accepts(args) && args.q.dim(1) <= 8 && rows <= kDecodeRows && args.q.dim(3) % 16 == 0 &&
         args.v.dim(3) % 16 == 0;
}

void run_decode(const AttentionArgs& args, Stream) {
  const std::int64_t queries = args.q.dim(1), keys = args.k.dim(1), kv_heads = args.k.dim(2);
  const std::int64_t group = args.q.dim(2) / kv_heads, d = args.q.dim(3), dv = args.v.dim(3);
  const float factor = args.softcap > 0.0F ? args.scale / args.softcap : args.scale * kLog2E;
  constexpr std::int64_t kGrain = 32768;  // elements of keys and values, about 5 µs
  parallel_for(
      args.q.dim(0) * kv_heads, kGrain / (keys * (d + dv) + 1) + 1,
      [&](std::int64_t begin, std::int64_t end) {
        DecodeHead h;
        h.rows = queries * group, h.head_size = d, h.value_size = dv;
        h.score_stride = round_up(keys, kPanel);
        float* q = thread_scratch(2, static_cast<std::size_t>(h.rows * (d + dv + h.score_stride + 1)));
        h.q = q, h.out = q + h.rows * d, h.scores = h.out + h.rows * dv,
        h.lse = h.scores + h.rows * h.score_stride;
        KeyRange ranges[kDecodeRows];
        h.ranges = ranges;
        h.dtype = args.k.dtype, h.softcap = args.softcap;
        for (std::int64_t item = begin; item < end; ++item) {
          const std::int64_t b = item / kv_heads, kv = item % kv_heads;
          const ConstTile k = head_tile(args.k, b, kv, 0, keys), v = head_tile(args.v, b, kv, 0, keys);
          h.k_scale = head_scale(args.k_scale, b, kv), h.v_scale = head_scale(args.v_scale, b, kv);
          h.k = k.data, h.k_stride = k.row_stride, h.v = v.data, h.v_stride = v.row_stride;
          for (std::int64_t g = 0; g < group;
               ++g) {  // rows: all queries of the group's first head, then the next
            load_tile(head_tile(args.q, b, kv * group + g, 0, queries), q + g * queries * d, d, factor);
            key_ranges(args.mask, b, queries, keys, 0, queries, ranges + g * queries);
          }
          HWY_DYNAMIC_DISPATCH(decode_head)(h);
          for (std::int64_t g = 0; g < group; ++g) {
            const std::int64_t head = kv * group + g;
            store_tile(h.out + g * queries * dv, dv, mutable_head_tile(args.out, b, head, 0, queries), false);
            if (!args.lse) continue;
            std::copy_n(h.lse + g * queries, queries,
                        args.lse.as<float>() + (b * args.q.dim(2) + head) * queries);
          }
        }
      });
}

void run_tiles(const AttentionArgs& args, const Bf16Pairs* pairs) {
  const std::int64_t batch = args.q.dim(0), queries = args.q.dim(1), heads = args.q.dim(2);
  const std::int64_t group = heads / args.k.dim(2);
  const std::int64_t tiles = (queries + kTileRows - 1) / kTileRows;
  const float factor = args.softcap > 0.0F ? args.scale / args.softcap : args.scale * kLog2E;
  parallel_for(batch * heads * tiles, 1, [&](std::int64_t begin, std::int64_t end) {
    PackedHead keys(pairs), values(pairs);
    KeyRange ranges[kTileRows];
    const std::int64_t dp = round_up(args.q.dim(3), 16), dvp = round_up(args.v.dim(3), 16);
    float* q = thread_scratch(2, static_cast<std::size_t>(kTileRows * (dp + dvp) + kGroupRows * kTileKeys));
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t h = item / tiles % heads, b = item / tiles / heads;
      const std::int64_t tile = balanced_tile(item % tiles, tiles);
      const std::int64_t row = tile * kTileRows, rows = std::min(kTileRows, queries - row);
      key_ranges(args.mask, b, queries, args.k.dim(1), row, rows, ranges);
      ForwardTile t;
      t.keys = keys.columns(args.k, args.k_scale, b, h / group, 0);
      t.values = values.rows(args.v, args.v_scale, b, h / group, 1);
      load_padded(head_tile(args.q, b, h, row, rows), q, dp, factor);
      for (std::int64_t i = 0; pairs != nullptr && i < rows; ++i) pairs->round(q + i * dp, q + i * dp, dp);
      t.pairs = pairs;
      t.q = q, t.out = q + kTileRows * dp, t.scores = q + kTileRows * (dp + dvp);
      t.rows = rows, t.head_size = dp, t.depth = args.q.dim(3), t.value_size = dvp;
      t.ranges = ranges;
      t.softcap = args.softcap;
      if (args.lse) t.lse = args.lse.as<float>() + (b * heads + h) * queries + row;
      HWY_DYNAMIC_DISPATCH(forward_tile)(t);
      store_tile(t.out, dvp, mutable_head_tile(args.out, b, h, row, rows), false);
    }
  });
}

void run(const AttentionArgs& args, Stream) { run_tiles(args, nullptr); }

bool accepts_bf16(const AttentionArgs& args) {
  return args.bf16_matmuls && args.q.dtype == DType::f32 && bf16_pairs() != nullptr && accepts(args);
}
void run_bf16(const AttentionArgs& args, Stream) { run_tiles(args, bf16_pairs()); }

}  // namespace

void register_attention_simd() {
  attention.add(DeviceType::cpu, {"decode", ImplKind::simd, accepts_decode, run_decode});
  attention.add(DeviceType::cpu,
                {"flash-bf16", ImplKind::simd, accepts_bf16, run_bf16, InstructionSet::avx512_bf16});
  attention.add(DeviceType::cpu, {"flash", ImplKind::simd, accepts, run});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
