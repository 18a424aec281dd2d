#if defined(__x86_64__)
#include <immintrin.h>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/x86/macros-inl.h"
#include "ingot/kernels/cpu/x86/quantized.h"

HWY_PUSH_ATTRIBUTES("avx2,fma,f16c")
namespace ingot::kernels::cpu {
namespace {

using Ints = __m256i;
using Floats = __m256;
constexpr std::int64_t kLanes = 8;
constexpr int kMaxRows = 4, kPairRows = 0;  // 4 whole-numbered and 4 float sums of 16 registers
constexpr bool kSignedBytes = true, kSumsWords = true;

INGOT_INLINE Ints zero_ints() { return _mm256_setzero_si256(); }
INGOT_INLINE Floats zero_floats() { return _mm256_setzero_ps(); }
INGOT_INLINE Ints load(const void* p) { return _mm256_load_si256(static_cast<const Ints*>(p)); }
INGOT_INLINE Ints splat(std::int32_t value) { return _mm256_set1_epi32(value); }
INGOT_INLINE Floats splat(float value) { return _mm256_set1_ps(value); }
INGOT_INLINE Ints splat_byte(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
INGOT_INLINE Ints splat_word(const std::uint8_t* p) {
  std::int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}
INGOT_INLINE Floats splat_float(const std::uint8_t* p) {
  float value;
  __builtin_memcpy(&value, p, 4);
  return _mm256_set1_ps(value);
}
INGOT_INLINE Ints load_table(const std::uint8_t* p) {
  return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
}
// Byte by byte; indices are below 16.
INGOT_INLINE Ints look_up(Ints table, Ints indices) { return _mm256_shuffle_epi8(table, indices); }
INGOT_INLINE Ints bits_and(Ints a, Ints b) { return _mm256_and_si256(a, b); }
INGOT_INLINE Ints add_bytes(Ints a, Ints b) { return _mm256_add_epi8(a, b); }
INGOT_INLINE Ints or_masked(Ints a, Ints b, Ints mask) {
  return _mm256_or_si256(a, _mm256_and_si256(b, mask));
}
INGOT_INLINE Ints shift_left(Ints a, int n) { return _mm256_slli_epi32(a, n); }
INGOT_INLINE Ints shift_right(Ints a, int n) { return _mm256_srli_epi32(a, n); }
INGOT_INLINE Floats to_floats(Ints a) { return _mm256_cvtepi32_ps(a); }
INGOT_INLINE Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
INGOT_INLINE Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
INGOT_INLINE Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
INGOT_INLINE Floats negative_multiply_add(Floats a, Floats b, Floats c) { return _mm256_fnmadd_ps(a, b, c); }
INGOT_INLINE Floats load_halves(const std::uint8_t* p) {
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
}
INGOT_INLINE Floats load_unsigned_bytes(const std::uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
INGOT_INLINE Floats load_signed_bytes(const std::uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
INGOT_INLINE Ints first_lanes(std::int64_t n) {
  return _mm256_cmpgt_epi32(splat(static_cast<std::int32_t>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INGOT_INLINE Floats load_floats(const float* p, std::int64_t n) {
  return _mm256_maskload_ps(p, first_lanes(n));
}
INGOT_INLINE Floats load_all_floats(const void* p) { return _mm256_load_ps(static_cast<const float*>(p)); }
INGOT_INLINE void store_floats(float* p, Floats v, std::int64_t n) {
  _mm256_maskstore_ps(p, first_lanes(n), v);
}
INGOT_INLINE Floats divide(Floats a, Floats b) { return _mm256_div_ps(a, b); }
INGOT_INLINE Floats absolute(Floats a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
INGOT_INLINE Floats maximum(Floats a, Floats b) { return _mm256_max_ps(a, b); }
INGOT_INLINE Floats unless_below(Floats top, Floats least, Floats x) {
  return _mm256_and_ps(_mm256_cmp_ps(top, least, _CMP_NLT_UQ), x);
}
INGOT_INLINE Ints to_ints(Floats a) { return _mm256_cvtps_epi32(a); }
INGOT_INLINE Ints least_bytes(Ints a, Ints b) { return _mm256_min_epu8(a, b); }
INGOT_INLINE Ints most_bytes(Ints a, Ints b) { return _mm256_max_epu8(a, b); }
INGOT_INLINE void store(void* p, Ints v) { _mm256_store_si256(static_cast<Ints*>(p), v); }

// Sums of two products fit 16 bits for codes below 128: 2 · 127 · 127.
INGOT_INLINE Ints pair_products(Ints codes, Ints x) { return _mm256_maddubs_epi16(codes, x); }
// Hides a sum from the optimizer, which would otherwise make all products first, spill them, and add them up
// as a tree.
INGOT_INLINE Ints in_order(Ints sum) {
  asm("" : "+x"(sum));
  return sum;
}
INGOT_INLINE Ints add_words(Ints a, Ints b) { return in_order(_mm256_add_epi16(a, b)); }
INGOT_INLINE Ints add_pairs(Ints sum, Ints words) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(words, _mm256_set1_epi16(1)));
}
INGOT_INLINE Ints dot(Ints sum, Ints codes, Ints x) { return add_pairs(sum, pair_products(codes, x)); }
// Codes of 8 bits less 128: |code| <= 128 times x with the code's sign, 2 · 128 · 127 at most.
INGOT_INLINE Ints dot_signed(Ints sum, Ints codes, Ints x) {
  const Ints code = _mm256_xor_si256(codes, splat_byte(-128));
  return dot(sum, _mm256_abs_epi8(code), _mm256_sign_epi8(x, code));
}

INGOT_INLINE Ints dot_words(Ints sum, Ints codes, Ints x) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(codes, x));
}

#include "ingot/kernels/cpu/x86/quantized-inl.h"
constexpr int kTileRows = 4, kTileVectors = 2;
#include "ingot/kernels/cpu/x86/round_anew-inl.h"
#include "ingot/kernels/cpu/x86/row_scaled-inl.h"

constexpr int kWordTileRows = 6;
#include "ingot/kernels/cpu/x86/requantized-inl.h"

constexpr int kSpanRows = 4, kSpanVectors = 2;
#include "ingot/kernels/cpu/x86/byte_spans-inl.h"

}  // namespace
}  // namespace ingot::kernels::cpu
HWY_POP_ATTRIBUTES

namespace ingot::kernels::cpu {
namespace {
// Products with larger ones leave 16 bits.
bool has_small_codes(const QuantizedMatmulArgs& args) {
  return args.weight_code == 0 || args.weight_code == kMostPairWeight || args.weight_code == kMostQuadWeight;
}
void run(const QuantizedMatmulArgs& args, Stream) {
  if (args.x.rank == 3) return multiply_requantized(args, requantized_kernel(args.format));
  if (args.weight_code == kMostPairWeight)
    return multiply_requantized(args, byte_span_kernel<kMostPairWeight>(args.format));
  if (args.weight_code == kMostQuadWeight)
    return multiply_requantized(args, byte_span_kernel<kMostQuadWeight>(args.format));
  multiply_panels(args, panel_kernel(args.format));
}
void run_row_scaled(const RowScaledMatmulArgs& args, Stream) { multiply_row_scaled(args, kRowScaledKernel); }
}  // namespace

void register_quantized_avx2() {
  quantized_matmul.add(DeviceType::cpu, {"avx2", ImplKind::simd, has_small_codes, run, InstructionSet::avx2});
  row_scaled_matmul.add(DeviceType::cpu,
                        {"avx2", ImplKind::simd, nullptr, run_row_scaled, InstructionSet::avx2});
}

}  // namespace ingot::kernels::cpu
#else
namespace ingot::kernels::cpu {
void register_quantized_avx2() {}
}  // namespace ingot::kernels::cpu
#endif
