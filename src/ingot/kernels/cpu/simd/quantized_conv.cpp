#include "ingot/kernels/quantized_conv.h"

#include <algorithm>
#include <cstring>

#include "ingot/kernels/affine_quantize.h"
#include "ingot/kernels/cpu/code_band.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/quantized_conv.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Codes are widened to 16 bits on the way into a padded copy of some rows of the image, so that sums of two
// products are exact: with u8 times i8 as they are, x86 before VNNI would saturate them. That costs nothing:
// the multiplications, not the additions, are what takes the time.

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
#if HWY_TARGET == HWY_SCALAR  // never chosen: register_quantized_conv_simd() needs vectors
void copy_code_row(const CodeBand&, std::int64_t, std::int64_t, std::int16_t*) {}
void convolve_code_row(const CodeBand&, const std::int16_t*, std::int64_t, std::int64_t) {}
#else
namespace hn = hwy::HWY_NAMESPACE;
constexpr int kCodePixels = 6;

template <class Code>
HWY_INLINE void widen_codes(const Code* from, std::int64_t n, std::int32_t zero, std::int16_t* to) {
  const hn::ScalableTag<std::int16_t> d;
  const hn::Rebind<Code, decltype(d)> codes;
  const auto zeros = hn::Set(d, static_cast<std::int16_t>(zero));
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::Sub(hn::PromoteTo(d, hn::LoadU(codes, from + i)), zeros), d, to + i);
  for (; i < n; ++i) to[i] = static_cast<std::int16_t>(from[i] - zero);
}

// Row `row` of the copy of a block of channels.
void copy_code_row(const CodeBand& band, std::int64_t block, std::int64_t row, std::int16_t* to) {
  const QuantizedConvArgs& args = *band.args;
  const std::int64_t line = band.first_row + row, whole = band.pitch;
  if (line < 0 || line >= band.height) {
    std::fill_n(to, whole, std::int16_t{0});
    return;
  }
  const std::int64_t left = args.geometry.padding[1] * band.b,
                     count = std::min(band.width * band.b, whole - left);
  const std::int64_t at = ((band.sample * band.blocks + block) * band.height + line) * band.width * band.b;
  std::fill_n(to, left, std::int16_t{0});
  if (args.x.dtype == DType::i8) {
    widen_codes(args.x.as<std::int8_t>() + at, count, args.x_zero, to + left);
  } else {
    widen_codes(args.x.as<std::uint8_t>() + at, count, args.x_zero, to + left);
  }
  std::fill_n(to + left + count, whole - left - count, std::int16_t{0});
}

// sum + a·b of neighbours.
template <class D32, class V16, class V32>
HWY_INLINE V32 add_pairs(D32 d, V16 a, V16 b, V32 sum, V32& rest) {
#if HWY_TARGET == HWY_AVX3_DL
  (void)d, (void)rest;
  return V32{_mm512_dpwssd_epi32(sum.raw, a.raw, b.raw)};
#else
  return hn::ReorderWidenMulAccumulate(d, a, b, sum, rest);
#endif
}

template <class Code, class V32>
HWY_INLINE void put_codes(V32 sums, const std::int32_t* bias, const float* scale, CodeRange range,
                          std::int32_t zero, Code* to) {
  const hn::ScalableTag<std::int32_t> d;
  const hn::Rebind<float, decltype(d)> df;
  const hn::Rebind<std::int16_t, decltype(d)> halves;
  const hn::Rebind<Code, decltype(d)> codes;
  if (bias != nullptr) sums = hn::Add(sums, hn::LoadU(d, bias));
  const auto scaled = hn::Mul(hn::ConvertTo(df, sums), hn::LoadU(df, scale));
  const auto limited = hn::Min(hn::Max(scaled, hn::Set(df, range.low - static_cast<float>(zero))),
                               hn::Set(df, range.high - static_cast<float>(zero)));
  const auto code = hn::Add(hn::NearestInt(limited), hn::Set(d, zero));
  hn::StoreU(hn::DemoteTo(codes, hn::DemoteTo(halves, code)), codes, to);
}

// R pixels of a row with the 2·B outputs of a panel.
template <int B, int R>
HWY_NOINLINE void code_tile(const CodeBand& band, const std::int32_t* weights,
                            const CodeTile<std::int16_t>& tile) {
  const hn::ScalableTag<std::int32_t> d;
  const hn::Repartition<std::int16_t, decltype(d)> d16;
  constexpr int kLanes = static_cast<int>(HWY_MIN(HWY_MAX_BYTES / 4, 2 * B)), kVectors = 2 * B / kLanes;
  using V = hn::Vec<decltype(d)>;
  V sums[R][kVectors], rests[R][kVectors];
  INGOT_UNROLL
  for (int r = 0; r < R; ++r) {
    INGOT_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[r][v] = rests[r][v] = hn::Zero(d);
  }
  const QuantizedConvArgs& args = *band.args;
  const std::int64_t pairs = args.weight.dim(3);
  for (std::int64_t tap = 0; tap < band.kh * band.kw; ++tap) {
    const std::int16_t* from = tile.x + tap / band.kw * args.geometry.dilation[0] * band.pitch +
                               tap % band.kw * args.geometry.dilation[1] * B;
    for (std::int64_t done = 0; done < pairs; done += B / 2, from += band.plane) {
      const std::int64_t count = std::min<std::int64_t>(B / 2, pairs - done);
      for (std::int64_t pair = 0; pair < count; ++pair, weights += 2 * B) {
        V weight[kVectors];
        INGOT_UNROLL
        for (int v = 0; v < kVectors; ++v) weight[v] = hn::LoadU(d, weights + v * kLanes);
        INGOT_UNROLL
        for (int r = 0; r < R; ++r) {
          std::int32_t two;
          std::memcpy(&two, from + r * tile.step + 2 * pair, sizeof(two));
          const auto x = hn::BitCast(d16, hn::Set(d, two));
          INGOT_UNROLL
          for (int v = 0; v < kVectors; ++v)
            sums[r][v] = add_pairs(d, x, hn::BitCast(d16, weight[v]), sums[r][v], rests[r][v]);
        }
      }
    }
  }
  const std::int64_t outputs = args.y.dim(1) * B;
  INGOT_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t output = tile.output + v * kLanes;
    if (output >= outputs) break;
    const std::int32_t* bias = args.bias ? args.bias.as<std::int32_t>() + output : nullptr;
    const float* scale = args.scale.as<float>() + output;
    const CodeRange range(args.y.dtype);
    const std::int64_t at = code_result_at(band, output, tile.position);
    INGOT_UNROLL
    for (int r = 0; r < R; ++r) {
      const V total = hn::RearrangeToOddPlusEven(sums[r][v], rests[r][v]);
      if (args.y.dtype == DType::i8) {
        put_codes(total, bias, scale, range, args.y_zero, args.y.as<std::int8_t>() + at + r * B);
      } else {
        put_codes(total, bias, scale, range, args.y_zero, args.y.as<std::uint8_t>() + at + r * B);
      }
    }
  }
}

template <int B>
void code_tile_of(std::int64_t pixels, const CodeBand& band, const std::int32_t* weights,
                  const CodeTile<std::int16_t>& tile) {
  switch (pixels) {
    case 1:
      return code_tile<B, 1>(band, weights, tile);
    case 2:
      return code_tile<B, 2>(band, weights, tile);
    case 3:
      return code_tile<B, 3>(band, weights, tile);
    case 4:
      return code_tile<B, 4>(band, weights, tile);
    case 5:
      return code_tile<B, 5>(band, weights, tile);
    default:
      return code_tile<B, kCodePixels>(band, weights, tile);
  }
}

// A row of the result with one panel.
void convolve_code_row(const CodeBand& band, const std::int16_t* codes, std::int64_t panel,
                       std::int64_t row) {
  const QuantizedConvArgs& args = *band.args;
  const std::int32_t* weights =
      args.weight.as<std::int32_t>() + panel * band.kh * band.kw * args.weight.dim(3) * 2 * band.b;
  for_each_code_tile<kCodePixels>(band, codes, panel, row,
                                  [&](std::int64_t pixels, const CodeTile<std::int16_t>& tile) {
                                    band.b == 16 ? code_tile_of<16>(pixels, band, weights, tile)
                                                 : code_tile_of<8>(pixels, band, weights, tile);
                                  });
}

#endif
}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(copy_code_row);
HWY_EXPORT(convolve_code_row);

void convolve_in_bands(const QuantizedConvArgs& args, Stream) {
  convolve_copied_bands<std::int16_t>(
      args,
      [](const CodeBand& band, std::int64_t block, std::int64_t row, std::int16_t* to) {
        HWY_DYNAMIC_DISPATCH(copy_code_row)(band, block, row, to);
      },
      [](const CodeBand& band, const std::int16_t* codes, std::int64_t panel, std::int64_t row) {
        HWY_DYNAMIC_DISPATCH(convolve_code_row)(band, codes, panel, row);
      });
}

}  // namespace

void register_quantized_conv_simd() {
#if HWY_ARCH_X86
  constexpr InstructionSet kVectors = InstructionSet::avx2;
#else
  constexpr InstructionSet kVectors = InstructionSet::baseline;
#endif
  quantized_conv.add(DeviceType::cpu, {"simd", ImplKind::simd,
                                       [](const QuantizedConvArgs& args) {
                                         return args.weight.dtype == DType::i32 &&
                                                (args.y.dim(4) == 8 || args.y.dim(4) == 16);
                                       },
                                       convolve_in_bands, kVectors});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
