#if defined(__x86_64__)
#include <algorithm>
#include <cstring>

#include <immintrin.h>

#include "ingot/kernels/affine_quantize.h"
#include "ingot/kernels/cpu/code_band.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/unroll.h"
#include "ingot/kernels/cpu/x86/macros-inl.h"

// g++ 12 takes the undefined operands inside its own headers for a mistake of ours (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// Codes of an image as unsigned bytes, times signed ones, four products at once: exact sums in 32 bits.
// Signed codes are moved by 128, their zero point too. The zero point is left in the codes, and what it adds
// to each sum, its product with the sum of all weights, taken from the bias.

HWY_PUSH_ATTRIBUTES("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
namespace ingot::kernels::cpu {
namespace {

constexpr std::int64_t kBlock = 16, kPanel = 2 * kBlock;
constexpr int kMostPixels = 8;

/// What is the same for all pixels.
struct ByteConv {
  const QuantizedConvArgs* args;
  const std::int32_t* offsets;  ///< what sums begin with, [panels, kPanel]
};

INGOT_INLINE __m512i splat_four(const std::uint8_t* p) {
  std::int32_t four;
  std::memcpy(&four, p, sizeof(four));
  return _mm512_set1_epi32(four);
}

/// Codes of 16 sums, less the zero point at first.
INGOT_INLINE __m128i requantized(__m512i sums, __m512 scale, CodeRange range, std::int32_t zero) {
  const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), scale),
               low = _mm512_set1_ps(range.low - static_cast<float>(zero)),
               high = _mm512_set1_ps(range.high - static_cast<float>(zero));
  const __m512i code = _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(scaled, low), high));
  return _mm512_cvtepi32_epi8(_mm512_add_epi32(code, _mm512_set1_epi32(zero)));
}

/// R pixels of a row with the outputs of a panel.
template <int R>
void byte_tile(const CodeBand& band, const ByteConv& conv, const std::int8_t* weights,
               const CodeTile<std::uint8_t>& tile) {
  const QuantizedConvArgs& args = *conv.args;
  __m512i sums[R][2];
  INGOT_UNROLL
  for (int r = 0; r < R; ++r) {
    INGOT_UNROLL
    for (int v = 0; v < 2; ++v) sums[r][v] = _mm512_loadu_si512(conv.offsets + tile.output + v * kBlock);
  }
  const std::int64_t groups = args.weight.dim(3);
  for (std::int64_t tap = 0; tap < band.kh * band.kw; ++tap) {
    const std::uint8_t* from = tile.x + tap / band.kw * args.geometry.dilation[0] * band.pitch +
                               tap % band.kw * args.geometry.dilation[1] * kBlock;
    for (std::int64_t done = 0; done < groups; done += kBlock / 4, from += band.plane) {
      const std::int64_t count = std::min<std::int64_t>(kBlock / 4, groups - done);
      for (std::int64_t group = 0; group < count; ++group, weights += 4 * kPanel) {
        const __m512i first = _mm512_loadu_si512(weights), second = _mm512_loadu_si512(weights + 4 * kBlock);
        INGOT_UNROLL
        for (int r = 0; r < R; ++r) {
          const __m512i x = splat_four(from + r * tile.step + 4 * group);
          sums[r][0] = _mm512_dpbusd_epi32(sums[r][0], x, first);
          sums[r][1] = _mm512_dpbusd_epi32(sums[r][1], x, second);
        }
      }
    }
  }
  const CodeRange range(args.y.dtype);
  INGOT_UNROLL
  for (int v = 0; v < 2; ++v) {
    const std::int64_t output = tile.output + v * kBlock;
    if (output >= args.y.dim(1) * kBlock) break;
    const __m512 scale = _mm512_loadu_ps(args.scale.as<float>() + output);
    std::uint8_t* y = static_cast<std::uint8_t*>(args.y.data) + code_result_at(band, output, tile.position);
    INGOT_UNROLL
    for (int r = 0; r < R; ++r)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y + r * kBlock),
                       requantized(sums[r][v], scale, range, args.y_zero));
  }
}

void tile_of(std::int64_t pixels, const CodeBand& band, const ByteConv& conv, const std::int8_t* weights,
             const CodeTile<std::uint8_t>& tile) {
  using Tile = void (*)(const CodeBand&, const ByteConv&, const std::int8_t*, const CodeTile<std::uint8_t>&);
  static constexpr Tile kTiles[kMostPixels] = {byte_tile<1>, byte_tile<2>, byte_tile<3>, byte_tile<4>,
                                               byte_tile<5>, byte_tile<6>, byte_tile<7>, byte_tile<8>};
  kTiles[pixels - 1](band, conv, weights, tile);
}

/// Sums of all weights of each output of a panel.
void sum_weights(const std::int8_t* weights, std::int64_t groups, std::int32_t* sums) {
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i first = _mm512_setzero_si512(), second = first;
  for (std::int64_t i = 0; i < groups; ++i, weights += 4 * kPanel) {
    first = _mm512_dpbusd_epi32(first, ones, _mm512_loadu_si512(weights));
    second = _mm512_dpbusd_epi32(second, ones, _mm512_loadu_si512(weights + 4 * kBlock));
  }
  _mm512_storeu_si512(sums, first);
  _mm512_storeu_si512(sums + kBlock, second);
}

/// As unsigned bytes.
void copy_codes(const View& x, std::int64_t at, std::int64_t count, std::uint8_t* to) {
  const std::uint8_t* from = static_cast<const std::uint8_t*>(x.data) + at;
  if (x.dtype == DType::u8) {
    std::copy_n(from, count, to);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(from[i] ^ 0x80U);
  }
}

}  // namespace
}  // namespace ingot::kernels::cpu
HWY_POP_ATTRIBUTES

namespace ingot::kernels::cpu {
namespace {

std::int32_t unsigned_zero(const QuantizedConvArgs& args) {
  return args.x.dtype == DType::i8 ? args.x_zero + 128 : args.x_zero;
}

/// The bias of each output less the zero point's part of its sum; 0 past the last one.
const std::int32_t* sum_offsets(const QuantizedConvArgs& args) {
  const View& weight = args.weight;
  const std::int64_t panels = weight.dim(0), outputs = args.scale.numel(), size = weight.numel() / panels;
  const std::int32_t zero = unsigned_zero(args);
  auto* offsets =
      reinterpret_cast<std::int32_t*>(thread_scratch(1, static_cast<std::size_t>(panels * kPanel)));
  parallel_for(panels, 1 + 1'000'000 / size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      std::int32_t* at = offsets + panel * kPanel;
      std::fill_n(at, kPanel, 0);
      if (zero != 0) sum_weights(weight.as<std::int8_t>() + panel * size, size / (4 * kPanel), at);
      for (std::int64_t i = 0; i < kPanel; ++i) {
        const std::int64_t output = panel * kPanel + i;
        at[i] = (args.bias && output < outputs ? args.bias.as<std::int32_t>()[output] : 0) - zero * at[i];
      }
    }
  });
  return offsets;
}

void copy_row(const CodeBand& band, std::int64_t block, std::int64_t row, std::uint8_t* to) {
  const QuantizedConvArgs& args = *band.args;
  const auto zero = static_cast<std::uint8_t>(unsigned_zero(args));
  const std::int64_t line = band.first_row + row;
  if (line < 0 || line >= band.height) {
    std::fill_n(to, band.pitch, zero);
    return;
  }
  const std::int64_t left = args.geometry.padding[1] * kBlock,
                     count = std::min(band.width * kBlock, band.pitch - left);
  const std::int64_t at = ((band.sample * band.blocks + block) * band.height + line) * band.width * kBlock;
  std::fill_n(to, left, zero);
  copy_codes(args.x, at, count, to + left);
  std::fill_n(to + left + count, band.pitch - left - count, zero);
}

/// Whether no window reaches beyond the image, whose codes serve as they are.
bool needs_no_copy(const CodeBand& band) {
  const QuantizedConvArgs& args = *band.args;
  return args.x.dtype == DType::u8 && args.geometry.padding[0] == 0 && args.geometry.padding[1] == 0 &&
         code_reach(band, 0) <= band.height && code_reach(band, 1) <= band.width;
}

void convolve_bytes(const QuantizedConvArgs& args, Stream) {
  const ByteConv conv{&args, sum_offsets(args)};
  const auto convolve = [&](const CodeBand& band, const std::uint8_t* codes, std::int64_t panel,
                            std::int64_t row) {
    const std::int8_t* weights =
        args.weight.as<std::int8_t>() + panel * (args.weight.numel() / args.weight.dim(0));
    for_each_code_tile<kMostPixels>(band, codes, panel, row,
                                    [&](std::int64_t pixels, const CodeTile<std::uint8_t>& tile) {
                                      tile_of(pixels, band, conv, weights, tile);
                                    });
  };
  CodeBand band = code_band(args);
  if (!needs_no_copy(band)) return convolve_copied_bands<std::uint8_t>(args, copy_row, convolve);
  band.rows = band.height;
  band.pitch = band.width * kBlock;
  band.plane = band.height * band.pitch;
  for (; band.sample < args.x.dim(0); ++band.sample) {
    const std::uint8_t* codes = args.x.as<std::uint8_t>() + band.sample * band.blocks * band.plane;
    convolve_band(band, codes, 0, band.out_height, convolve);
  }
}

}  // namespace

void register_quantized_conv_vnni() {
  quantized_conv.add(DeviceType::cpu, {"avx512-vnni", ImplKind::simd,
                                       [](const QuantizedConvArgs& args) {
                                         return args.weight.dtype == DType::i8 && args.y.dim(4) == kBlock;
                                       },
                                       convolve_bytes, InstructionSet::avx512_vnni});
}

}  // namespace ingot::kernels::cpu
#else
namespace ingot::kernels::cpu {
void register_quantized_conv_vnni() {}
}  // namespace ingot::kernels::cpu
#endif
