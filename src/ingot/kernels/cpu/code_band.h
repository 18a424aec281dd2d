#pragma once

#include <algorithm>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/tile.h"
#include "ingot/kernels/quantized_conv.h"

// What the convolutions of codes have in common: some rows of the result are computed at once, from a padded
// copy of the rows of the image that they need, or from the image itself.

namespace ingot::kernels::cpu {

/// One sample's convolution. Rows of codes are `pitch` apart, blocks of input channels `plane`.
struct CodeBand {
  const QuantizedConvArgs* args;
  std::int64_t sample = 0;
  std::int64_t b = 8, width = 0, out_width = 0, out_height = 0;  ///< of the image, in pixels
  std::int64_t height = 0, kh = 1, kw = 1, blocks = 0;           ///< blocks: of input channels
  std::int64_t first_row = 0;                                    ///< of the image, that the codes begin with
  std::int64_t rows = 0, pitch = 0, plane = 0;
};

/// Where a tile of pixels and outputs reads and writes.
template <class Code>
struct CodeTile {
  const Code* x;                  ///< the first pixel's window
  std::int64_t step;              ///< from one pixel to the next
  std::int64_t output, position;  ///< the first of the panel's outputs, the first pixel of the result
};

/// The whole of the sample; where windows are single adjacent pixels, short rows are batched.
inline CodeBand code_band(const QuantizedConvArgs& args) {
  const View &x = args.x, &y = args.y;
  const ConvGeometry& g = args.geometry;
  CodeBand band{.args = &args,
                .b = y.dim(4),
                .width = x.dim(3),
                .out_width = y.dim(3),
                .out_height = y.dim(2),
                .height = x.dim(2),
                .kh = args.weight.dim(1),
                .kw = args.weight.dim(2),
                .blocks = x.dim(1)};
  const bool pointwise = band.kh * band.kw * g.stride[0] * g.stride[1] == 1 &&
                         g.padding[0] + g.padding[1] == 0 && band.width == band.out_width &&
                         band.height == band.out_height;
  constexpr std::int64_t kLong = 64;
  std::int64_t together = 1;
  for (std::int64_t k = 2; pointwise && k * band.width <= kLong; ++k)
    together = band.height % k == 0 ? k : together;
  band.width *= together, band.out_width *= together;
  band.height /= together, band.out_height /= together;
  return band;
}

/// Codes of the image from the first pixel's window to the last one's, on one axis.
inline std::int64_t code_reach(const CodeBand& band, std::size_t axis) {
  const ConvGeometry& g = band.args->geometry;
  const std::int64_t count = axis == 0 ? band.out_height : band.out_width,
                     kernel = axis == 0 ? band.kh : band.kw;
  return (count - 1) * g.stride[axis] + (kernel - 1) * g.dilation[axis] + 1;
}

/// convolve(band, codes, panel, row) for each panel of outputs and each row of the result, in parallel.
template <class Code, class Convolve>
void convolve_band(const CodeBand& band, const Code* codes, std::int64_t first, std::int64_t count,
                   Convolve&& convolve) {
  constexpr double kGrain = 100'000;  // multiply-adds
  const std::int64_t panels = band.args->weight.dim(0);
  const double products =
      static_cast<double>(band.out_width) * static_cast<double>(band.args->weight.numel());
  const auto grain = static_cast<std::int64_t>(kGrain * static_cast<double>(panels) / products) + 1;
  parallel_for(panels * count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) convolve(band, codes, i / count, first + i % count);
  });
}

/// The same for all samples, from copies: copy_row(band, block, row, to) writes `pitch` codes of a row, which
/// may lie outside the image.
template <class Code, class Copy, class Convolve>
void convolve_copied_bands(const QuantizedConvArgs& args, Copy&& copy_row, Convolve&& convolve) {
  constexpr std::int64_t kCopy = std::int64_t{1} << 18;  // codes: half a MiB of 16 bits
  CodeBand band = code_band(args);
  const ConvGeometry& g = args.geometry;
  band.pitch = std::max(band.width + g.padding[1], code_reach(band, 1)) * band.b;
  const std::int64_t reach = (band.kh - 1) * g.dilation[0] + 1, row_size = band.pitch * band.blocks,
                     fitting = (kCopy / row_size - reach) / g.stride[0] + 1,
                     rows = std::clamp<std::int64_t>(fitting, 1, band.out_height);
  for (std::int64_t n = 0; n < args.x.dim(0); ++n) {
    band.sample = n;
    for (std::int64_t first = 0; first < band.out_height; first += rows) {
      const std::int64_t count = std::min(rows, band.out_height - first);
      band.first_row = first * g.stride[0] - g.padding[0];
      band.rows = (count - 1) * g.stride[0] + reach;
      band.plane = band.rows * band.pitch;
      const std::size_t bytes = static_cast<std::size_t>(row_size * band.rows) * sizeof(Code);
      auto* codes = reinterpret_cast<Code*>(thread_scratch(0, bytes / sizeof(float) + 1));
      parallel_for(band.blocks * band.rows, 1 + 16384 / band.pitch,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i)
                       copy_row(band, i / band.rows, i % band.rows, codes + i * band.pitch);
                   });
      convolve_band(band, static_cast<const Code*>(codes), first, count, convolve);
    }
  }
}

/// f(pixels, tile) for the tiles of a row of the result, at most kMost pixels each, of nearly one size.
template <int kMost, class Code, class F>
void for_each_code_tile(const CodeBand& band, const Code* codes, std::int64_t panel, std::int64_t row,
                        F&& f) {
  const ConvGeometry& g = band.args->geometry;
  const std::int64_t line = row * g.stride[0] - g.padding[0] - band.first_row,
                     tiles = (band.out_width + kMost - 1) / kMost;
  for (std::int64_t i = 0; i < tiles; ++i) {
    const std::int64_t begin = band.out_width * i / tiles, pixels = band.out_width * (i + 1) / tiles - begin;
    f(pixels, CodeTile<Code>{.x = codes + line * band.pitch + begin * g.stride[1] * band.b,
                             .step = g.stride[1] * band.b,
                             .output = panel * 2 * band.b,
                             .position = row * band.out_width + begin});
  }
}

/// Where the codes of a tile's outputs begin, those of its first pixel.
inline std::int64_t code_result_at(const CodeBand& band, std::int64_t output, std::int64_t position) {
  const std::int64_t positions = band.out_height * band.out_width;
  return ((band.sample * band.args->y.dim(1) + output / band.b) * positions + position) * band.b +
         output % band.b;
}

}  // namespace ingot::kernels::cpu
