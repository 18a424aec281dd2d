#include "ingot/kernels/dot_rate.h"

#if defined(__x86_64__)
#include <algorithm>
#include <cstdint>

#include <immintrin.h>

#include "ingot/base/parallel.h"
#include "ingot/base/stopwatch.h"
#include "ingot/kernels/cpu/x86/macros-inl.h"
#include "ingot/kernels/instruction_set.h"

// g++ 12 takes the undefined operands inside its own headers for a mistake of ours (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace ingot::kernels::cpu {
namespace {

constexpr int kRows = 12;   // of activations, as many as quantized_matmul's tile has
constexpr int kGroups = 8;  // dot products of a block of 32 columns

}  // namespace
}  // namespace ingot::kernels::cpu

HWY_PUSH_ATTRIBUTES("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
namespace ingot::kernels::cpu {
namespace {

// The inner loop of quantized-inl.h without its loads. An empty asm keeps the compiler from seeing that every
// row does the same.
template <bool kScales>
INGOT_NOINLINE void dot_blocks(std::int64_t blocks) {
  __m512i codes = _mm512_set1_epi32(0x01020304), x = _mm512_set1_epi32(0x01010101);
  __m512 scale = _mm512_set1_ps(0.5F);
  __m512i dots[kRows];
  __m512 sums[kRows];
  // Every loop over rows is unrolled, or the arrays stay in memory.
  INGOT_UNROLL_ROWS
  for (int r = 0; r < kRows; ++r) {
    dots[r] = _mm512_setzero_si512();
    sums[r] = _mm512_setzero_ps();
  }
  for (std::int64_t block = 0; block < blocks; ++block) {
    INGOT_UNROLL_ROWS
    for (int g = 0; g < kGroups; ++g) {
      INGOT_UNROLL_ROWS
      for (int r = 0; r < kRows; ++r) {
        dots[r] = _mm512_dpbusd_epi32(dots[r], codes, x);
        asm volatile("" : "+v"(dots[r]));
      }
    }
    if constexpr (!kScales) continue;
    INGOT_UNROLL_ROWS
    for (int r = 0; r < kRows; ++r) {
      asm volatile("" : "+v"(scale));
      sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r]), _mm512_mul_ps(scale, scale), sums[r]);
      dots[r] = _mm512_setzero_si512();
    }
  }
  INGOT_UNROLL_ROWS
  for (int r = 0; r < kRows; ++r) asm volatile("" : : "v"(sums[r]), "v"(dots[r]));
}

}  // namespace
}  // namespace ingot::kernels::cpu
HWY_POP_ATTRIBUTES

namespace ingot::kernels::cpu {
namespace {

// The best of a few rounds: another program may have the processor for a while.
double rate(void (*run)(std::int64_t blocks)) {
  constexpr std::int64_t kBlocks = 20'000;  // some 0.5 ms
  const int threads = num_threads();
  double best = 0;
  for (int round = 0; round < 20; ++round) {
    const Stopwatch watch;
    parallel_for(threads, 1, [&](std::int64_t begin, std::int64_t end) { run(kBlocks * (end - begin)); });
    best = std::max(best, static_cast<double>(kBlocks) * threads * kGroups * kRows * 128 / watch.seconds());
  }
  return best;
}

}  // namespace
}  // namespace ingot::kernels::cpu

namespace ingot::kernels {

DotRates measure_dot_rates() {
  if (std::min(best_instruction_set(), instruction_set_limit()) < InstructionSet::avx512_vnni) return {};
  return {.alone = cpu::rate(cpu::dot_blocks<false>), .with_scales = cpu::rate(cpu::dot_blocks<true>)};
}

}  // namespace ingot::kernels
#else
namespace ingot::kernels {
DotRates measure_dot_rates() { return {}; }
}  // namespace ingot::kernels
#endif
