#if defined(__x86_64__)
#include <immintrin.h>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/x86/macros-inl.h"
#include "ingot/kernels/cpu/x86/quantized.h"

// g++ 12 takes the undefined operands inside its own headers for a mistake of ours (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

HWY_PUSH_ATTRIBUTES("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")
namespace ingot::kernels::cpu {
namespace {
#include "ingot/kernels/cpu/x86/vectors512.h"

constexpr int kMaxRows = 12, kPairRows = 6;  // 12 whole-numbered and 12 float sums of 32 registers
constexpr bool kSignedBytes = true, kSumsWords = true;

// Sums of two products fit 16 bits for codes below 128: 2 · 127 · 127.
INGOT_INLINE Ints pair_products(Ints codes, Ints x) { return _mm512_maddubs_epi16(codes, x); }
// Hides a sum from the optimizer, which would otherwise make all products first, spill them, and add them up
// as a tree.
INGOT_INLINE Ints in_order(Ints sum) {
  asm("" : "+v"(sum));
  return sum;
}
INGOT_INLINE Ints add_words(Ints a, Ints b) { return in_order(_mm512_add_epi16(a, b)); }
INGOT_INLINE Ints add_pairs(Ints sum, Ints words) {
  return _mm512_add_epi32(sum, _mm512_madd_epi16(words, _mm512_set1_epi16(1)));
}
INGOT_INLINE Ints dot(Ints sum, Ints codes, Ints x) { return add_pairs(sum, pair_products(codes, x)); }
// Codes of 8 bits less 128: |code| <= 128 times x with the code's sign, 2 · 128 · 127 at most.
INGOT_INLINE Ints dot_signed(Ints sum, Ints codes, Ints x) {
  const Ints code = _mm512_xor_si512(codes, splat_byte(-128));
  const Ints signed_x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(code), zero_ints(), x);
  return dot(sum, _mm512_abs_epi8(code), signed_x);
}

INGOT_INLINE Ints dot_words(Ints sum, Ints codes, Ints x) {
  return _mm512_add_epi32(sum, _mm512_madd_epi16(codes, x));
}

#include "ingot/kernels/cpu/x86/quantized-inl.h"
constexpr int kTileRows = 8, kTileVectors = 2;
#include "ingot/kernels/cpu/x86/round_anew-inl.h"
#include "ingot/kernels/cpu/x86/row_scaled-inl.h"

constexpr int kWordTileRows = 8;
#include "ingot/kernels/cpu/x86/requantized-inl.h"

constexpr int kSpanRows = 6, kSpanVectors = 2;
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

void register_quantized_avx512() {
  quantized_matmul.add(DeviceType::cpu,
                       {"avx512", ImplKind::simd, has_small_codes, run, InstructionSet::avx512});
  row_scaled_matmul.add(DeviceType::cpu,
                        {"avx512", ImplKind::simd, nullptr, run_row_scaled, InstructionSet::avx512});
}

}  // namespace ingot::kernels::cpu
#else
namespace ingot::kernels::cpu {
void register_quantized_avx512() {}
}  // namespace ingot::kernels::cpu
#endif
