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
#include "ingot/kernels/cpu/x86/vnni-inl.h"

constexpr int kTileRows = 8, kTileVectors = 3;
#include "ingot/kernels/cpu/x86/round_anew-inl.h"
#include "ingot/kernels/cpu/x86/row_scaled-inl.h"

constexpr int kSpanRows = kPairRows, kSpanVectors = 2;
#include "ingot/kernels/cpu/x86/byte_spans-inl.h"

}  // namespace
}  // namespace ingot::kernels::cpu
HWY_POP_ATTRIBUTES

namespace ingot::kernels::cpu {
namespace {
// Spans of int16 codes take twice as long as int8 here: they are AVX-512's.
bool has_blocks(const QuantizedMatmulArgs& args) {
  return args.x.rank == 2 && (args.weight_code == 0 || args.weight_code == kMostByteWeight);
}
void run(const QuantizedMatmulArgs& args, Stream) {
  if (args.weight_code != 0)
    return multiply_requantized(args, byte_span_kernel<kMostByteWeight>(args.format));
  multiply_panels(args, panel_kernel(args.format));
}
void run_row_scaled(const RowScaledMatmulArgs& args, Stream) { multiply_row_scaled(args, kRowScaledKernel); }
}  // namespace

PanelKernel vnni_panel_kernel(PackedFormat format) { return panel_kernel(format); }

void register_quantized_avx512_vnni() {
  quantized_matmul.add(DeviceType::cpu,
                       {"avx512-vnni", ImplKind::simd, has_blocks, run, InstructionSet::avx512_vnni});
  row_scaled_matmul.add(
      DeviceType::cpu, {"avx512-vnni", ImplKind::simd, nullptr, run_row_scaled, InstructionSet::avx512_vnni});
}

}  // namespace ingot::kernels::cpu
#else
namespace ingot::kernels::cpu {
void register_quantized_avx512_vnni() {}
}  // namespace ingot::kernels::cpu
#endif
