#include "ingot/kernels/cpu/bf16_pairs.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "ingot/kernels/cpu/x86/macros-inl.h"

// g++ 12 takes the undefined operands inside its own headers for a mistake of ours (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

HWY_PUSH_ATTRIBUTES("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")
namespace ingot::kernels::cpu {
namespace {

// R rows by V vectors of c in registers, as in attention-inl.h; a dot product adds two columns of a at once.
template <int R, int V>
INGOT_INLINE void pair_block(const SmallGemm& g, std::int64_t row, std::int64_t col) {
  __m512 sum[R][V];
  float* c = g.c + row * g.ldc + col;
  INGOT_UNROLL_ROWS
  for (int r = 0; r < R; ++r) {
    INGOT_UNROLL_ROWS
    for (int v = 0; v < V; ++v)
      sum[r][v] = g.accumulate ? _mm512_loadu_ps(c + r * g.ldc + 16 * v) : _mm512_setzero_ps();
  }
  const float *a = g.a + row * g.a_row, *b = g.b + col;
  const std::int64_t a_row = g.a_row, a_col = g.a_col, ldb = g.ldb;
  for (std::int64_t k = 0; k < g.k; ++k, a += a_col, b += ldb) {
    __m512bh w[V];
    INGOT_UNROLL_ROWS
    for (int v = 0; v < V; ++v) w[v] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + 16 * v));
    INGOT_UNROLL_ROWS
    for (int r = 0; r < R; ++r) {
      const auto x = reinterpret_cast<__m512bh>(_mm512_set1_ps(a[r * a_row]));
      INGOT_UNROLL_ROWS
      for (int v = 0; v < V; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], x, w[v]);
    }
  }
  INGOT_UNROLL_ROWS
  for (int r = 0; r < R; ++r) {
    INGOT_UNROLL_ROWS
    for (int v = 0; v < V; ++v) _mm512_storeu_ps(c + r * g.ldc + 16 * v, sum[r][v]);
  }
}

template <int R>
INGOT_NOINLINE void pair_rows(const SmallGemm& g, std::int64_t row) {
  std::int64_t col = 0;
  for (; col + 64 <= g.n; col += 64) pair_block<R, 4>(g, row, col);
  for (; col < g.n; col += 16) pair_block<R, 1>(g, row, col);
}

void multiply(const SmallGemm& g, std::int64_t row, std::int64_t rows) {
  switch (rows) {
    case 6:
      return pair_rows<6>(g, row);
    case 5:
      return pair_rows<5>(g, row);
    case 4:
      return pair_rows<4>(g, row);
    case 3:
      return pair_rows<3>(g, row);
    case 2:
      return pair_rows<2>(g, row);
    default:
      return pair_rows<1>(g, row);
  }
}

INGOT_INLINE __m512i rounded_words(const float* x) {  // 16 numbers in the low halves of words
  return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(x))));
}

void round(const float* x, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i / 2),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i))));
}

void round_two(const float* even, const float* odd, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const __m512i high = _mm512_slli_epi32(rounded_words(odd + i), 16);
    _mm512_storeu_si512(to + i, _mm512_or_si512(rounded_words(even + i), high));
  }
}

constexpr Bf16Pairs kPairs{.multiply = multiply, .round = round, .round_two = round_two};

}  // namespace
}  // namespace ingot::kernels::cpu
HWY_POP_ATTRIBUTES

namespace ingot::kernels::cpu {
const Bf16Pairs* bf16_pairs() { return &kPairs; }
}  // namespace ingot::kernels::cpu
#else
namespace ingot::kernels::cpu {
const Bf16Pairs* bf16_pairs() { return nullptr; }
}  // namespace ingot::kernels::cpu
#endif
