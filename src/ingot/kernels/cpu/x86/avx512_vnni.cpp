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

HWY_PUSH_ATTRIBUTES("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
namespace ingot::kernels::cpu {
namespace {
#include "ingot/kernels/cpu/x86/vectors512.h"

constexpr int kMaxRows = 12;  // 12 whole-numbered and 12 float sums of 32 registers
constexpr bool kSignedBytes = false;

INGOT_INLINE Ints dot(Ints sum, Ints codes, Ints x) { return _mm512_dpbusd_epi32(sum, codes, x); }
INGOT_INLINE Ints dot_signed(Ints sum, Ints, Ints) { return sum; }  // never called

#include "ingot/kernels/cpu/x86/quantized-inl.h"

}  // namespace
}  // namespace ingot::kernels::cpu
HWY_POP_ATTRIBUTES

namespace ingot::kernels::cpu {
namespace {
void run(const QuantizedMatmulArgs& args, Stream) { multiply_panels(args, panel_kernel(args.format)); }
}  // namespace

void register_quantized_avx512_vnni() {
  quantized_matmul.add(DeviceType::cpu,
                       {"avx512-vnni", ImplKind::simd, nullptr, run, InstructionSet::avx512_vnni});
}

}  // namespace ingot::kernels::cpu
#else
namespace ingot::kernels::cpu {
void register_quantized_avx512_vnni() {}
}  // namespace ingot::kernels::cpu
#endif
