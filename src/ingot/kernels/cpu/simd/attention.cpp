#include "ingot/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/attention_ranges.h"
#include "ingot/kernels/cpu/attention_tile.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// One row of scores: the running maximum and sum, and how what was summed so far must be rescaled.
struct RowState {
  float top, sum, rescale;
};

// scores[begin, end) become 2^(score − top); the rest of [0, width) becomes 0.
HWY_INLINE void softmax_row(float* s, std::int64_t begin, std::int64_t end, std::int64_t width,
                            RowState& row) {
  const hn::ScalableTag<float> d;
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto top = lowest;
  for_lanes(
      begin, end, [&](std::int64_t i) { top = hn::Max(top, hn::LoadU(d, s + i)); },
      [&](std::int64_t i, auto inside) {
        top = hn::Max(top, hn::IfThenElse(inside, hn::LoadU(d, s + i), lowest));
      });
  const float new_top = std::max(row.top, hn::GetLane(hn::MaxOfLanes(d, top)));
  row.rescale = row.sum > 0.0F ? std::exp2(row.top - new_top) : 0.0F;
  const auto shift = hn::Set(d, new_top);
  auto sum = hn::Zero(d);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i + lanes <= begin; i += lanes) hn::StoreU(hn::Zero(d), d, s + i);
  for_lanes(
      begin, end,
      [&](std::int64_t i) {
        const auto e = exp2_lanes(d, hn::Sub(hn::LoadU(d, s + i), shift));
        sum = hn::Add(sum, e);
        hn::StoreU(e, d, s + i);
      },
      [&](std::int64_t i, auto inside) {
        const auto e = hn::IfThenElseZero(inside, exp2_lanes(d, hn::Sub(hn::LoadU(d, s + i), shift)));
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

// score = cap·log2(e)·tanh(score)
HWY_INLINE void cap_row(float* s, std::int64_t n, float cap) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, cap * 1.44269504F);
  for (std::int64_t i = 0; i < n; i += static_cast<std::int64_t>(hn::Lanes(d)))
    hn::StoreU(hn::Mul(factor, tanh_lanes(d, hn::LoadU(d, s + i))), d, s + i);
}

void forward_tile(const ForwardTile& t) {
  const std::int64_t dp = t.head_size, dvp = t.value_size;
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
    for (std::int64_t row = 0; row < t.rows; row += kBlockRows) {
      const std::int64_t count = std::min(kBlockRows, t.rows - row);
      std::int64_t begin = last, end = first;  // keys that this block of rows sees here
      for (std::int64_t i = row; i < row + count; ++i) {
        if (t.ranges[i].empty()) continue;
        begin = std::min(begin, std::max(t.ranges[i].lo, first));
        end = std::max(end, std::min(t.ranges[i].hi, last));
      }
      if (begin >= end) continue;
      begin = begin / kPanel * kPanel;
      const std::int64_t width = round_up(end, kPanel) - begin;
      for (std::int64_t key = begin; key < end; key += kPanel) {
        SmallGemm g{.n = kPanel, .k = dp, .a = t.q, .a_row = dp, .b = t.keys + key * dp, .ldb = kPanel};
        g.c = t.scores + (key - begin) - row * kTileKeys;
        g.ldc = kTileKeys;
        small_row_block(g, row, count);
      }
      for (std::int64_t i = 0; i < count; ++i) {
        float* s = t.scores + i * kTileKeys;
        if (t.softcap > 0.0F) cap_row(s, width, t.softcap);
        const KeyRange range = t.ranges[row + i];
        const std::int64_t from = std::max(range.lo, begin) - begin, to = std::min(range.hi, end) - begin;
        if (from >= to) {
          std::fill_n(s, width, 0.0F);
          continue;
        }
        softmax_row(s, from, to, width, rows[row + i]);
        if (rows[row + i].rescale != 1.0F) scale_row(t.out + (row + i) * dvp, dvp, rows[row + i].rescale);
      }
      SmallGemm g{.n = dvp, .k = end - begin, .a = t.scores - row * kTileKeys, .a_row = kTileKeys};
      g.b = t.values + begin * dvp, g.ldb = dvp;
      g.c = t.out, g.ldc = dvp, g.accumulate = true;
      small_row_block(g, row, count);
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

bool adjacent(const View& x) { return x.stride(3) == 1 || x.dim(3) == 1; }

bool accepts(const AttentionArgs& args) {
  return args.q.dtype != DType::f64 && adjacent(args.q) && adjacent(args.k) && adjacent(args.v) &&
         adjacent(args.out) && args.q.numel() > 0 && args.v.numel() > 0;
}

void run(const AttentionArgs& args, Stream) {
  const std::int64_t batch = args.q.dim(0), queries = args.q.dim(1), heads = args.q.dim(2);
  const std::int64_t group = heads / args.k.dim(2);
  const std::int64_t tiles = (queries + kTileRows - 1) / kTileRows;
  const float factor = args.softcap > 0.0F ? args.scale / args.softcap : args.scale * kLog2E;
  parallel_for(batch * heads * tiles, 1, [&](std::int64_t begin, std::int64_t end) {
    PackedHead keys, values;
    KeyRange ranges[kTileRows];
    const std::int64_t dp = round_up(args.q.dim(3), 16), dvp = round_up(args.v.dim(3), 16);
    float* q = thread_scratch(2, static_cast<std::size_t>(kTileRows * (dp + dvp) + kBlockRows * kTileKeys));
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t h = item / tiles % heads, b = item / tiles / heads;
      const std::int64_t tile = balanced_tile(item % tiles, tiles);
      const std::int64_t row = tile * kTileRows, rows = std::min(kTileRows, queries - row);
      key_ranges(args.mask, b, queries, args.k.dim(1), row, rows, ranges);
      ForwardTile t;
      t.keys = keys.columns(args.k, b, h / group, 0);
      t.values = values.rows(args.v, b, h / group, 1);
      load_padded(head_tile(args.q, b, h, row, rows), q, dp, factor);
      t.q = q, t.out = q + kTileRows * dp, t.scores = q + kTileRows * (dp + dvp);
      t.rows = rows, t.head_size = dp, t.value_size = dvp;
      t.ranges = ranges;
      t.softcap = args.softcap;
      if (args.lse) t.lse = args.lse.as<float>() + (b * heads + h) * queries + row;
      HWY_DYNAMIC_DISPATCH(forward_tile)(t);
      store_tile(t.out, dvp, mutable_head_tile(args.out, b, h, row, rows), false);
    }
  });
}

}  // namespace

void register_attention_simd() { attention.add(DeviceType::cpu, {"flash", ImplKind::simd, accepts, run}); }

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
