// Dot products of a few rows with a few rows. Included once per Highway target.
#if defined(INGOT_DOT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_DOT_INL_H
#undef INGOT_DOT_INL_H
#else
#define INGOT_DOT_INL_H
#endif

#include <cstdint>

#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"
#include "ingot/kernels/cpu/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// y[i][j] = Σ_k a[i][k]·b[j][k] for M rows of a and N rows of b at once.
template <int M, int N, class T>
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
  for (; p + lanes <= k; p += lanes) {
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
    INGOT_UNROLL
    for (int j = 0; j < N; ++j) {
      float total = hn::GetLane(hn::SumOfLanes(d, sum[i][j]));
      for (std::int64_t q = p; q < k; ++q) total += a[i * lda + q] * static_cast<float>(b[j * ldb + q]);
      y[i * ldy + j] = total;
    }
  }
}

// The same for m rows of a.
template <int N, class T>
HWY_INLINE void dot_rows(std::int64_t m, std::int64_t k, const float* a, std::int64_t lda, const T* b,
                         std::int64_t ldb, float* y, std::int64_t ldy) {
  std::int64_t i = 0;
  for (; i + 4 <= m; i += 4) dot_block<4, N>(a + i * lda, lda, b, ldb, k, y + i * ldy, ldy);
  switch (m - i) {
    case 3:
      return dot_block<3, N>(a + i * lda, lda, b, ldb, k, y + i * ldy, ldy);
    case 2:
      return dot_block<2, N>(a + i * lda, lda, b, ldb, k, y + i * ldy, ldy);
    case 1:
      return dot_block<1, N>(a + i * lda, lda, b, ldb, k, y + i * ldy, ldy);
    default:
      return;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
