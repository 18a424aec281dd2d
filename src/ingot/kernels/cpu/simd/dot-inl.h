// Dot products of a few rows with a few rows. Included once per Highway target.
#if defined(INGOT_DOT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_DOT_INL_H
#undef INGOT_DOT_INL_H
#else
#define INGOT_DOT_INL_H
#endif

#include <cstdint>
#include <type_traits>

#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/fold-inl.h"
#include "ingot/kernels/cpu/simd/lanes-inl.h"
#include "ingot/kernels/cpu/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The sum of all lanes of each of N vectors. One order for every N.
template <int N>
HWY_INLINE void lane_sums(D d, const hn::Vec<D>* v, float* y) {
#if INGOT_HAS_FOLD
  static_assert(N == 1 || N == 4);
  if constexpr (N == 4) {
    hn::StoreU(fold_each(AddOp(), d, v[0], v[1], v[2], v[3]), hn::FixedTag<float, 4>(), y);
  } else {
    const auto x = fold_to_four(AddOp(), d, v[0]);
    const auto pairs = hn::Add(x, hn::Shuffle1032(x));
    *y = hn::GetLane(hn::Add(pairs, hn::Shuffle2301(pairs)));
  }
#else
  for (int j = 0; j < N; ++j) y[j] = hn::GetLane(hn::SumOfLanes(d, v[j]));
#endif
}

// y[i][j] = Σ_k a[i][k]·b[j][k] for M rows of a and N rows of b at once. kAhead: the N rows of b after these
// are wanted next, and come into L2 meanwhile. Few rows of a are bound by memory, and where rows of b are
// short the processor's own prefetching begins anew with each.
template <int M, int N, bool kAhead, class T>
void dot_block(const float* a, std::int64_t lda, const T* b, std::int64_t ldb, std::int64_t k, float* y,
               std::int64_t ldy) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<D> sum[M][N];
  INGOT_UNROLL
  for (int i = 0; i < M; ++i) {
    INGOT_UNROLL
    for (int j = 0; j < N; ++j) sum[i][j] = hn::Zero(d);
  }
  std::int64_t p = 0;
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (; p + lanes <= k; p += lanes) {
    if constexpr (kAhead) {
      if (p % kLine == 0) {
        INGOT_UNROLL
        for (int j = 0; j < N; ++j) __builtin_prefetch(b + (j + N) * ldb + p, 0, 2);
      }
    }
    hn::Vec<D> w[N];
    INGOT_UNROLL
    for (int j = 0; j < N; ++j) w[j] = load_lanes(d, b + j * ldb + p);
    INGOT_UNROLL
    for (int i = 0; i < M; ++i) {
      const auto x = hn::LoadU(d, a + i * lda + p);
      INGOT_UNROLL
      for (int j = 0; j < N; ++j) sum[i][j] = hn::MulAdd(x, w[j], sum[i][j]);
    }
  }
  INGOT_UNROLL
  for (int i = 0; i < M; ++i) {
    float* to = y + i * ldy;
    lane_sums<N>(d, sum[i], to);
    for (std::int64_t q = p; q < k; ++q) {
      for (int j = 0; j < N; ++j) to[j] += a[i * lda + q] * static_cast<float>(b[j * ldb + q]);
    }
  }
}

// The same for m rows of a; `ahead` as kAhead.
template <int N, class T>
HWY_INLINE void dot_rows(std::int64_t m, std::int64_t k, const float* a, std::int64_t lda, const T* b,
                         std::int64_t ldb, float* y, std::int64_t ldy, bool ahead = false) {
  const auto block = [&]<int M>(std::integral_constant<int, M>, std::int64_t i) {
    if (ahead && i == 0) {
      dot_block<M, N, true>(a, lda, b, ldb, k, y, ldy);
    } else {
      dot_block<M, N, false>(a + i * lda, lda, b, ldb, k, y + i * ldy, ldy);
    }
  };
  std::int64_t i = 0;
  for (; i + 4 <= m; i += 4) block(std::integral_constant<int, 4>(), i);
  switch (m - i) {
    case 3:
      return block(std::integral_constant<int, 3>(), i);
    case 2:
      return block(std::integral_constant<int, 2>(), i);
    case 1:
      return block(std::integral_constant<int, 1>(), i);
    default:
      return;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
