#if defined(__x86_64__)
#include <immintrin.h>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/x86/macros-inl.h"
#include "ingot/kernels/cpu/x86/weight_only.h"

// g++ 12 takes the undefined operands inside its own headers for a mistake of ours (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

HWY_PUSH_ATTRIBUTES("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")
namespace ingot::kernels::cpu {
namespace {

using Ints = __m512i;
using Floats = __m512;
constexpr std::int64_t kLanes = 16;
constexpr int kMaxRows = 12;  // two sums each of 32 registers

INGOT_INLINE Floats zero_floats() { return _mm512_setzero_ps(); }
INGOT_INLINE Ints load(const void* p) { return _mm512_load_si512(p); }
INGOT_INLINE Floats load_numbers(const void* p) { return _mm512_load_ps(p); }
INGOT_INLINE Floats splat(float value) { return _mm512_set1_ps(value); }
INGOT_INLINE Ints shift_right(Ints a, int n) { return _mm512_srli_epi32(a, static_cast<unsigned>(n)); }
INGOT_INLINE Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
INGOT_INLINE Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
INGOT_INLINE Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
INGOT_INLINE __mmask16 first_lanes(std::int64_t n) {
  return n >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1U << n) - 1);
}
INGOT_INLINE Floats load_floats(const float* p, std::int64_t n) {
  return _mm512_maskz_loadu_ps(first_lanes(n), p);
}
INGOT_INLINE void store_floats(float* p, Floats v, std::int64_t n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), v);
}

struct CodeTable {
  Floats values;
  INGOT_INLINE explicit CodeTable(const std::array<float, 16>& of) : values(_mm512_loadu_ps(of.data())) {}
};
INGOT_INLINE Floats look_up(const CodeTable& table, Ints codes) {
  return _mm512_permutexvar_ps(codes, table.values);
}
// An f32 of the same bits has an exponent that is too small by 120; numbers below 2⁻⁶ are denormal there as
// here, so that one multiplication corrects all.
INGOT_INLINE Floats float8_values(Ints v) {
  const Ints sign = _mm512_slli_epi32(v, 24), magnitude = _mm512_and_si512(v, _mm512_set1_epi32(0x7f));
  const Ints bits = _mm512_ternarylogic_epi32(_mm512_slli_epi32(magnitude, 20), sign,
                                              _mm512_set1_epi32(static_cast<int>(0x80000000U)), 0xf8);
  return _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0x1p120F));
}

#include "ingot/kernels/cpu/x86/weight_only-inl.h"

}  // namespace
}  // namespace ingot::kernels::cpu
HWY_POP_ATTRIBUTES

namespace ingot::kernels::cpu {
void register_weight_only_avx512() {
  weight_only_matmul.add(DeviceType::cpu, {"avx512", ImplKind::simd, nullptr, run, InstructionSet::avx512});
}
}  // namespace ingot::kernels::cpu
#else
namespace ingot::kernels::cpu {
void register_weight_only_avx512() {}
}  // namespace ingot::kernels::cpu
#endif
