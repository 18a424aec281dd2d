// What the forward and backward attention kernels share: a register-blocked matmul of small matrices.
// Included once per Highway target.
#if defined(INGOT_ATTENTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_ATTENTION_INL_H
#undef INGOT_ATTENTION_INL_H
#else
#define INGOT_ATTENTION_INL_H
#endif

#include <algorithm>
#include <cstdint>

#include <hwy/highway.h>

#include "ingot/kernels/cpu/attention_tile.h"
#include "ingot/kernels/cpu/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// R rows by V vectors of c in registers: R·V accumulators, V vectors of b, one broadcast of a.
template <int R, int V>
HWY_INLINE void small_block(const SmallGemm& g, std::int64_t row, std::int64_t col) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[R][V];
  float* c = g.c + row * g.ldc + col;
  INGOT_UNROLL
  for (int r = 0; r < R; ++r) {
    INGOT_UNROLL
    for (int v = 0; v < V; ++v)
      sum[r][v] = g.accumulate ? hn::LoadU(d, c + r * g.ldc + v * lanes) : hn::Zero(d);
  }
  const float* a = g.a + row * g.a_row;
  const float* b = g.b + col;
  const std::int64_t a_row = g.a_row, a_col = g.a_col, ldb = g.ldb;
  for (std::int64_t k = 0; k < g.k; ++k) {
    hn::Vec<decltype(d)> w[V];
    INGOT_UNROLL
    for (int v = 0; v < V; ++v) w[v] = hn::LoadU(d, b + v * lanes);
    INGOT_UNROLL
    for (int r = 0; r < R; ++r) {
      const auto x = hn::Set(d, a[r * a_row]);
      INGOT_UNROLL
      for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(x, w[v], sum[r][v]);
    }
    a += a_col;
    b += ldb;
  }
  INGOT_UNROLL
  for (int r = 0; r < R; ++r) {
    INGOT_UNROLL
    for (int v = 0; v < V; ++v) hn::StoreU(sum[r][v], d, c + r * g.ldc + v * lanes);
  }
}

template <int R>
HWY_NOINLINE void small_rows(const SmallGemm& g, std::int64_t row) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr int kVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;  // 32 registers, or 16
  std::int64_t col = 0;
  for (; col + kVectors * lanes <= g.n; col += kVectors * lanes) small_block<R, kVectors>(g, row, col);
  const std::int64_t rest = (g.n - col) / lanes;  // vectors
  if (rest == 3) return small_block<R, 3>(g, row, col);
  if (rest == 2) return small_block<R, 2>(g, row, col);
  if (rest == 1) small_block<R, 1>(g, row, col);
}

// Rows [row, row + rows) of the matmul, rows <= kBlockRows.
HWY_INLINE void small_row_block(const SmallGemm& g, std::int64_t row, std::int64_t rows) {
  switch (rows) {
    case 6:
      return small_rows<6>(g, row);
    case 5:
      return small_rows<5>(g, row);
    case 4:
      return small_rows<4>(g, row);
    case 3:
      return small_rows<3>(g, row);
    case 2:
      return small_rows<2>(g, row);
    default:
      return small_rows<1>(g, row);
  }
}

// Calls f(i, mask) for the vectors that cover [begin, end), and full(i) where all lanes are inside. Vectors
// start at multiples of the lane count.
template <class Full, class Partial>
HWY_INLINE void for_lanes(std::int64_t begin, std::int64_t end, Full&& full, Partial&& partial) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = begin / lanes * lanes;
  while (i < end) {
    if (i >= begin && i + lanes <= end) {
      full(i);
    } else {
      const auto index = hn::Iota(di, static_cast<std::int32_t>(i));
      const auto inside = hn::And(hn::Gt(index, hn::Set(di, static_cast<std::int32_t>(begin - 1))),
                                  hn::Lt(index, hn::Set(di, static_cast<std::int32_t>(end))));
      partial(i, hn::RebindMask(d, inside));
    }
    i += lanes;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
