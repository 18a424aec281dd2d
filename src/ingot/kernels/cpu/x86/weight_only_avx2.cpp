#if defined(__x86_64__)
#include <immintrin.h>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/x86/macros-inl.h"
#include "ingot/kernels/cpu/x86/weight_only.h"

HWY_PUSH_ATTRIBUTES("avx2,fma,f16c")
namespace ingot::kernels::cpu {
namespace {

using Ints = __m256i;
using Floats = __m256;
constexpr std::int64_t kLanes = 8;
constexpr int kMaxRows = 4;  // two sums each of 16 registers

INGOT_INLINE Floats zero_floats() { return _mm256_setzero_ps(); }
INGOT_INLINE Ints load(const void* p) { return _mm256_load_si256(static_cast<const Ints*>(p)); }
INGOT_INLINE Floats load_numbers(const void* p) { return _mm256_load_ps(static_cast<const float*>(p)); }
INGOT_INLINE Floats splat(float value) { return _mm256_set1_ps(value); }
INGOT_INLINE Ints shift_right(Ints a, int n) { return _mm256_srli_epi32(a, n); }
INGOT_INLINE Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
INGOT_INLINE Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
INGOT_INLINE Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
INGOT_INLINE Ints first_lanes(std::int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<std::int32_t>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INGOT_INLINE Floats load_floats(const float* p, std::int64_t n) {
  return _mm256_maskload_ps(p, first_lanes(n));
}
INGOT_INLINE void store_floats(float* p, Floats v, std::int64_t n) {
  _mm256_maskstore_ps(p, first_lanes(n), v);
}

struct CodeTable {
  Floats low, high;
  INGOT_INLINE explicit CodeTable(const std::array<float, 16>& of)
      : low(_mm256_loadu_ps(of.data())), high(_mm256_loadu_ps(of.data() + 8)) {}
};
INGOT_INLINE Floats look_up(const CodeTable& table, Ints codes) {
  const Floats low = _mm256_permutevar8x32_ps(table.low, codes);
  const Floats high = _mm256_permutevar8x32_ps(table.high, codes);
  return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28)));
}
// An f32 of the same bits has an exponent that is too small by 120; numbers below 2⁻⁶ are denormal there as
// here, so that one multiplication corrects all.
INGOT_INLINE Floats float8_values(Ints v) {
  const Ints sign =
      _mm256_and_si256(_mm256_slli_epi32(v, 24), _mm256_set1_epi32(static_cast<int>(0x80000000U)));
  const Ints magnitude = _mm256_slli_epi32(_mm256_and_si256(v, _mm256_set1_epi32(0x7f)), 20);
  return _mm256_mul_ps(_mm256_castsi256_ps(_mm256_or_si256(sign, magnitude)), _mm256_set1_ps(0x1p120F));
}

#include "ingot/kernels/cpu/x86/weight_only-inl.h"

}  // namespace
}  // namespace ingot::kernels::cpu
HWY_POP_ATTRIBUTES

namespace ingot::kernels::cpu {
void register_weight_only_avx2() {
  weight_only_matmul.add(DeviceType::cpu, {"avx2", ImplKind::simd, nullptr, run, InstructionSet::avx2});
}
}  // namespace ingot::kernels::cpu
#else
namespace ingot::kernels::cpu {
void register_weight_only_avx2() {}
}  // namespace ingot::kernels::cpu
#endif
