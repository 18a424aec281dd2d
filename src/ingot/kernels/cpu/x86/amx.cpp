#if defined(__x86_64__)
#include <array>

#include <immintrin.h>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/x86/macros-inl.h"
#include "ingot/kernels/cpu/x86/quantized.h"

// g++ 12 takes the undefined operands inside its own headers for a mistake of ours (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

HWY_PUSH_ATTRIBUTES("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,amx-tile,amx-int8")
namespace ingot::kernels::cpu {
namespace {
#include "ingot/kernels/cpu/x86/amx-inl.h"

// The processor's own tiles. tests/kernels/amx_test.cpp runs the same kernels on tiles in memory.
struct AmxTiles {
  INGOT_INLINE static void configure(const TileConfig& config) { _tile_loadconfig(&config); }
  INGOT_INLINE static void release() { _tile_release(); }
  INGOT_INLINE static void multiply(const std::uint8_t* x, std::int64_t stride, const std::uint8_t* weights,
                                    std::int32_t* sums) {
    _tile_zero(0);
    _tile_loadd(1, x, stride);
    _tile_loadd(2, weights, 64);
    _tile_dpbsud(0, 1, 2);
    _tile_stored(0, sums, 64);
  }
};

}  // namespace
}  // namespace ingot::kernels::cpu
HWY_POP_ATTRIBUTES

namespace ingot::kernels::cpu {
namespace {
// Fewer rows are limited by memory, or leave most of a tile empty. Spans are multiplied by AVX-512.
bool accepts(const QuantizedMatmulArgs& args) {
  return args.x.rank == 2 && args.weight_code == 0 && args.y.dim(0) >= kTileRows;
}
void run(const QuantizedMatmulArgs& args, Stream) {
  multiply_panels(args, tile_kernel<AmxTiles>(args.format));
}
}  // namespace

void register_quantized_amx() {
  quantized_matmul.add(DeviceType::cpu, {"amx", ImplKind::simd, accepts, run, InstructionSet::amx});
}

}  // namespace ingot::kernels::cpu
#else
namespace ingot::kernels::cpu {
void register_quantized_amx() {}
}  // namespace ingot::kernels::cpu
#endif
