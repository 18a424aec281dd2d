#include <algorithm>
#include <cmath>
#include <utility>

#include "ingot/base/parallel.h"
#include "ingot/kernels/attention.h"
#include "ingot/kernels/cpu/attention_tile.h"
#include "ingot/kernels/cpu/register.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/attention_backward.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/attention-inl.h"
#include "ingot/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

struct Rows {
  std::int64_t begin, end;
  bool empty() const { return end <= begin; }
};

// Those of `rows` that see something of the keys [first, last), as one range.
Rows rows_that_see(const KeyRange* ranges, Rows rows, std::int64_t first, std::int64_t last) {
  const auto sees = [&](std::int64_t i) {
    return !ranges[i].empty() && ranges[i].lo < last && ranges[i].hi > first;
  };
  while (!rows.empty() && !sees(rows.begin)) ++rows.begin;
  while (!rows.empty() && !sees(rows.end - 1)) --rows.end;
  return rows;
}

// Makes of one row of scores s and of dP P and ds = P ∘ (dP − delta), over `begin` to `end` of a panel;
// both are 0 outside. With softcap, s comes as q·k·scale / cap.
HWY_INLINE void gradient_row(float* s, float* dp, std::int64_t begin, std::int64_t end, float lse2,
                             float delta, float softcap) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto shift = hn::Set(d, lse2), deltas = hn::Set(d, delta), one = hn::Set(d, 1.0F);
  const auto cap = hn::Set(d, softcap * kLog2E);
  for (std::int64_t i = 0; i < kPanel; i += lanes) {
    if (i >= end || i + lanes <= begin) {
      hn::StoreU(hn::Zero(d), d, s + i);
      hn::StoreU(hn::Zero(d), d, dp + i);
      continue;
    }
    auto score = hn::LoadU(d, s + i);
    auto slope = one;
    if (softcap > 0.0F) {
      const auto t = tanh(score);
      slope = hn::NegMulAdd(t, t, one);
      score = hn::Mul(t, cap);
    }
    auto p = exp2(hn::Sub(score, shift));
    if (i < begin || i + lanes > end) {
      for_lanes(
          std::max(begin, i), std::min(end, i + lanes), [](std::int64_t) HWY_ATTR {},
          [&](std::int64_t, auto inside) HWY_ATTR { p = hn::IfThenElseZero(inside, p); });
    }
    auto ds = hn::Mul(p, hn::Sub(hn::LoadU(d, dp + i), deltas));
    if (softcap > 0.0F) ds = hn::Mul(ds, slope);
    hn::StoreU(p, d, s + i);
    hn::StoreU(ds, d, dp + i);
  }
}

// Up to kGradientRows rows of a tile against the keys [key, key + kPanel). A causal mask cuts a panel on its
// diagonal: every matmul keeps to the rows or keys that its blocks of six can see.
class PanelGradient {
 public:
  PanelGradient(const BackwardTile& t, Rows rows, std::int64_t key)
      : t_(t), rows_(rows), count_(rows.end - rows.begin), key_(key) {
    for (std::int64_t row = 0; row < count_; row += kBlockRows) {
      const KeyRange seen =
          seen_keys(t.ranges + rows.begin + row, std::min(kBlockRows, count_ - row), key, key + kPanel);
      keys_[row / kBlockRows] = std::max<std::int64_t>(seen.hi - key, 0);
    }
  }

  // to[i, key] = Σ_c x[i, c]·panel[c, key] for the first `depth` columns of rows that are `width` apart.
  HWY_INLINE void multiply(const float* x, std::int64_t width, const float* panel, std::int64_t depth,
                           float* to) const {
    SmallGemm g{.k = depth, .a = x + rows_.begin * width, .a_row = width, .b = panel, .ldb = kPanel};
    g.c = to, g.ldc = kScoreStride;
    for (std::int64_t row = 0; row < count_; row += kBlockRows) {
      g.n = round_up(keys_[row / kBlockRows], kColumns);
      small_row_block(g, row, std::min(kBlockRows, count_ - row));
    }
  }

  HWY_INLINE void gradients() const {
    for (std::int64_t i = 0; i < count_; ++i) {
      const std::int64_t row = rows_.begin + i;
      const KeyRange range = t_.ranges[row].empty() ? KeyRange{key_, key_} : t_.ranges[row];
      gradient_row(t_.scores + i * kScoreStride, t_.dscores + i * kScoreStride, range.lo - key_,
                   range.hi - key_, t_.lse2[row], t_.delta[row], t_.softcap);
    }
  }

  // to[key, c] += Σ_i weights[i, key]·x[i, c]
  HWY_INLINE void add_to_keys(const float* weights, const float* x, std::int64_t width, float* to) const {
    SmallGemm g{.n = width, .a_row = 1, .a_col = kScoreStride, .ldb = width};
    g.c = to, g.ldc = width, g.accumulate = true;
    const std::int64_t keys = std::min(kPanel, t_.last_key - key_);
    for (std::int64_t k = 0; k < keys; k += kBlockRows) {
      const std::int64_t n = std::min(kBlockRows, keys - k);
      const Rows rows = rows_that_see(t_.ranges, rows_, key_ + k, key_ + k + n);
      if (rows.empty()) continue;
      g.a = weights + (rows.begin - rows_.begin) * kScoreStride;
      g.b = x + rows.begin * width;
      g.k = rows.end - rows.begin;
      small_row_block(g, k, n);
    }
  }

  // to[i, c] += Σ_key weights[i, key]·keys[key, c]
  HWY_INLINE void add_to_queries(const float* weights, const float* keys, std::int64_t width,
                                 float* to) const {
    SmallGemm g{.n = width, .a = weights, .a_row = kScoreStride, .b = keys, .ldb = width};
    g.c = to + rows_.begin * width, g.ldc = width, g.accumulate = true;
    for (std::int64_t row = 0; row < count_; row += kBlockRows) {
      g.k = keys_[row / kBlockRows];
      small_row_block(g, row, std::min(kBlockRows, count_ - row));
    }
  }

 private:
  const BackwardTile& t_;
  Rows rows_;
  std::int64_t count_, key_;
  std::int64_t keys_[kGradientRows / kBlockRows];  // of the panel, that a block of rows sees
};

void backward_tile(const BackwardTile& t) {
  const std::int64_t d = t.head_size, dv = t.value_size;
  for (std::int64_t key = t.first_key; key < t.last_key; key += kPanel) {
    const std::int64_t at = key - t.first_key;
    for (std::int64_t row = 0; row < t.rows; row += kGradientRows) {
      const Rows rows =
          rows_that_see(t.ranges, {row, std::min(row + kGradientRows, t.rows)}, key, key + kPanel);
      if (rows.empty()) continue;
      const PanelGradient panel(t, rows, key);
      panel.multiply(t.q, d, t.keys_t + key * d, t.depth, t.scores);
      panel.multiply(t.dout, dv, t.values_t + key * dv, t.value_depth, t.dscores);
      panel.gradients();
      if (t.dvalues != nullptr) panel.add_to_keys(t.scores, t.dout, dv, t.dvalues + at * dv);
      if (t.dkeys != nullptr) panel.add_to_keys(t.dscores, t.q, d, t.dkeys + at * d);
      if (t.dq != nullptr) panel.add_to_queries(t.dscores, t.keys + key * d, d, t.dq);
    }
  }
}

// delta = Σ_c dout[c]·out[c] of each row.
void row_dots(const float* a, const float* b, std::int64_t rows, std::int64_t n, float* to) {
  const hn::ScalableTag<float> d;
  for (std::int64_t r = 0; r < rows; ++r) {
    auto sum = hn::Zero(d);
    for (std::int64_t i = 0; i < n; i += static_cast<std::int64_t>(hn::Lanes(d)))
      sum = hn::MulAdd(hn::LoadU(d, a + r * n + i), hn::LoadU(d, b + r * n + i), sum);
    to[r] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

void scale(float* x, std::int64_t n, float factor) {
  const hn::ScalableTag<float> d;
  const auto f = hn::Set(d, factor);
  for (std::int64_t i = 0; i < n; i += static_cast<std::int64_t>(hn::Lanes(d)))
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), f), d, x + i);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(backward_tile);
HWY_EXPORT(row_dots);
HWY_EXPORT(scale);

bool adjacent(const View& x) { return !x || x.stride(3) == 1 || x.dim(3) == 1; }

bool accepts(const AttentionBackwardArgs& args) {
  return args.q.dtype != DType::f64 && adjacent(args.q) && adjacent(args.k) && adjacent(args.v) &&
         adjacent(args.out) && adjacent(args.dout) && adjacent(args.dq) && adjacent(args.dk) &&
         adjacent(args.dv) && args.q.numel() > 0 && args.v.numel() > 0;
}

// Part of the work of one key/value head: all query tiles against the keys [first, last), or one query tile
// against all keys.
class HeadWorker {
 public:
  explicit HeadWorker(const AttentionBackwardArgs& args)
      : args_(args),
        queries_(args.q.dim(1)),
        keys_(args.k.dim(1)),
        group_(args.q.dim(2) / args.k.dim(2)),
        d_(round_up(args.q.dim(3), 16)),
        dv_(round_up(args.v.dim(3), 16)) {
    float* scratch = thread_scratch(4, static_cast<std::size_t>(kGradientTileRows * (2 * d_ + 2 * dv_ + 2) +
                                                                2 * kGradientRows * kScoreStride));
    const auto take = [&scratch](std::int64_t n) { return std::exchange(scratch, scratch + n); };
    q_ = take(kGradientTileRows * d_), dq_ = take(kGradientTileRows * d_);
    out_ = take(kGradientTileRows * dv_), dout_ = take(kGradientTileRows * dv_);
    scores_ = take(kGradientRows * kScoreStride), dscores_ = take(kGradientRows * kScoreStride);
    lse2_ = take(kGradientTileRows), delta_ = take(kGradientTileRows);
  }

  /// dk and dv of the keys [first, last) (a multiple of kPanel, but for the end), and dq where `with_dq`.
  void keys(std::int64_t b, std::int64_t kv, std::int64_t first, std::int64_t last, bool with_dq) {
    const std::int64_t padded = round_up(last - first, kPanel);
    float* sums = thread_scratch(5, static_cast<std::size_t>(padded * (d_ + dv_)));
    std::fill_n(sums, padded * (d_ + dv_), 0.0F);
    BackwardTile t = tile(b, kv);
    t.dkeys = args_.dk ? sums : nullptr;
    t.dvalues = args_.dv ? sums + padded * d_ : nullptr;
    for (std::int64_t h = kv * group_; h < (kv + 1) * group_; ++h) {
      for (std::int64_t row = 0; row < queries_; row += kGradientTileRows)
        run(t, b, h, row, first, last, with_dq);
    }
    if (t.dkeys != nullptr) {
      HWY_DYNAMIC_DISPATCH(scale)(t.dkeys, (last - first) * d_, args_.scale / factor());
      store_tile(t.dkeys, d_, mutable_head_tile(args_.dk, b, kv, first, last - first), args_.accumulate_dk);
    }
    if (t.dvalues != nullptr)
      store_tile(t.dvalues, dv_, mutable_head_tile(args_.dv, b, kv, first, last - first),
                 args_.accumulate_dv);
  }

  /// dq of one tile of queries.
  void queries(std::int64_t b, std::int64_t h, std::int64_t row) {
    BackwardTile t = tile(b, h / group_);
    run(t, b, h, row, 0, keys_, true);
  }

 private:
  // Queries are scaled so that scores come out in base 2, or ready for tanh.
  float factor() const { return args_.softcap > 0.0F ? args_.scale / args_.softcap : args_.scale * kLog2E; }

  BackwardTile tile(std::int64_t b, std::int64_t kv) {
    BackwardTile t;
    t.keys_t = keys_t_.columns(args_.k, {}, b, kv, 0);
    t.values_t = values_t_.columns(args_.v, {}, b, kv, 1);
    t.keys = keys_rows_.rows(args_.k, {}, b, kv, 2);
    t.q = q_, t.dout = dout_, t.lse2 = lse2_, t.delta = delta_;
    t.scores = scores_, t.dscores = dscores_;
    t.ranges = ranges_;
    t.head_size = d_, t.depth = args_.q.dim(3);
    t.value_size = dv_, t.value_depth = args_.v.dim(3);
    t.softcap = args_.softcap;
    return t;
  }

  void run(BackwardTile& t, std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t first,
           std::int64_t last, bool with_dq) {
    t.rows = std::min(kGradientTileRows, queries_ - row);
    key_ranges(args_.mask, b, queries_, keys_, row, t.rows, ranges_);
    t.first_key = last, t.last_key = first;
    for (std::int64_t i = 0; i < t.rows; ++i) {
      if (ranges_[i].empty()) continue;
      t.first_key = std::min(t.first_key, std::max(first, ranges_[i].lo / kPanel * kPanel));
      t.last_key = std::max(t.last_key, std::min(last, ranges_[i].hi));
    }
    t.dq = with_dq && args_.dq ? dq_ : nullptr;
    if (t.dq != nullptr) std::fill_n(t.dq, t.rows * d_, 0.0F);
    if (t.first_key < t.last_key) {
      load(b, h, row, t.rows);
      float* dkeys = t.dkeys;
      float* dvalues = t.dvalues;
      if (dkeys != nullptr) t.dkeys = dkeys + (t.first_key - first) * d_;
      if (dvalues != nullptr) t.dvalues = dvalues + (t.first_key - first) * dv_;
      HWY_DYNAMIC_DISPATCH(backward_tile)(t);
      t.dkeys = dkeys, t.dvalues = dvalues;
    }
    if (t.dq == nullptr) return;
    HWY_DYNAMIC_DISPATCH(scale)(t.dq, t.rows * d_, args_.scale);
    store_tile(t.dq, d_, mutable_head_tile(args_.dq, b, h, row, t.rows), args_.accumulate_dq);
  }

  void load(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t rows) {
    load_padded(head_tile(args_.q, b, h, row, rows), q_, d_, factor());
    load_padded(head_tile(args_.out, b, h, row, rows), out_, dv_);
    load_padded(head_tile(args_.dout, b, h, row, rows), dout_, dv_);
    HWY_DYNAMIC_DISPATCH(row_dots)(dout_, out_, rows, dv_, delta_);
    const float* lse = args_.lse.as<float>() + (b * args_.q.dim(2) + h) * queries_ + row;
    for (std::int64_t i = 0; i < rows; ++i) lse2_[i] = lse[i] * kLog2E;
  }

  const AttentionBackwardArgs& args_;
  std::int64_t queries_, keys_, group_, d_, dv_;
  PackedHead keys_t_, values_t_, keys_rows_;
  KeyRange ranges_[kGradientTileRows];
  float *q_, *dq_, *out_, *dout_, *scores_, *dscores_, *lse2_, *delta_;
};

void run(const AttentionBackwardArgs& args, Stream) {
  const std::int64_t batch = args.q.dim(0), heads = args.q.dim(2), kv_heads = args.k.dim(2);
  const std::int64_t queries = args.q.dim(1), keys = args.k.dim(1);
  // Whole heads where there are enough of them to go around: then scores are made once for dq, dk and dv.
  if (batch * kv_heads >= num_threads() || in_parallel()) {
    parallel_for(batch * kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
      HeadWorker worker(args);
      for (std::int64_t i = begin; i < end; ++i) worker.keys(i / kv_heads, i % kv_heads, 0, keys, true);
    });
    return;
  }
  const std::int64_t blocks = (keys + kTileKeys - 1) / kTileKeys,
                     tiles = (queries + kGradientTileRows - 1) / kGradientTileRows;
  parallel_for(batch * kv_heads * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    HeadWorker worker(args);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = balanced_tile(i % blocks, blocks) * kTileKeys, kv = i / blocks % kv_heads;
      worker.keys(i / blocks / kv_heads, kv, first, std::min(first + kTileKeys, keys), false);
    }
  });
  if (!args.dq) return;
  parallel_for(batch * heads * tiles, 1, [&](std::int64_t begin, std::int64_t end) {
    HeadWorker worker(args);
    for (std::int64_t i = begin; i < end; ++i)
      worker.queries(i / tiles / heads, i / tiles % heads,
                     balanced_tile(i % tiles, tiles) * kGradientTileRows);
  });
}

}  // namespace

void register_attention_backward_simd() {
  attention_backward.add(DeviceType::cpu, {"flash", ImplKind::simd, accepts, run});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
