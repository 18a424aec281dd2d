#include "ingot/quant/codebook_matrix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/core/dtype.h"
#include "ingot/kernels/nvfp4.h"
#include "ingot/quant/floats.h"

namespace ingot::quant {
namespace {

using kernels::kNf4Values;
using kernels::PackedFormat;

constexpr float kLargestFp8 = 448;

void check_weight(const Tensor& values, std::string_view name) {
  for (std::int64_t i = 0; i < values.numel(); ++i)
    INGOT_CHECK(std::isfinite(values.data<float>()[i]),
                NonFinite(std::string(name), fmt::format("element {} is {}; a weight must be finite", i,
                                                         values.data<float>()[i])));
}

float top_magnitude(const float* x, std::int64_t n) {
  float top = 0;
  for (std::int64_t i = 0; i < n; ++i) top = std::max(top, std::abs(x[i]));
  return top;
}

// The nearest value's code, the lower one of two that are as near.
std::uint8_t nearest_nf4(float x) {
  const auto above = std::ranges::lower_bound(kNf4Values, x);
  if (above == kNf4Values.begin()) return 0;
  if (above == kNf4Values.end()) return 15;
  const bool lower = x - *(above - 1) <= *above - x;
  return static_cast<std::uint8_t>(above - kNf4Values.begin() - (lower ? 1 : 0));
}

std::uint8_t nearest_fp8(float x) { return f8e4m3(std::clamp(x, -kLargestFp8, kLargestFp8)).bits; }

template <class ScaleOf, class Round>
CodebookMatrix round_groups(PackedFormat format, const Tensor& w, std::int64_t group, std::string_view name,
                            ScaleOf&& scale_of, Round&& round) {
  const Tensor values = as_floats(w, name);
  check_weight(values, name);
  CodebookMatrix m{
      .format = format, .rows = w.dim(0), .cols = w.dim(1), .group = group, .codes = {}, .scales = {}};
  m.codes = Tensor::empty({m.rows, m.cols}, DType::u8);
  m.scales = Tensor::empty({m.rows, m.cols / group});
  parallel_for(m.scales.numel(), 1 + 16384 / group, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      const float* x = values.data<float>() + g * group;
      const float scale = scale_of(top_magnitude(x, group));
      m.scales.data<float>()[g] = scale;
      for (std::int64_t i = 0; i < group; ++i)
        m.codes.data<std::uint8_t>()[g * group + i] = round(scale > 0 ? x[i] / scale : 0.0F);
    }
  });
  return m;
}

float value_of(PackedFormat format, std::uint8_t code) {
  if (format == PackedFormat::nf4) return kNf4Values[code];
  if (format == PackedFormat::nvfp4) return kernels::kE2m1Values[code];
  f8e4m3 value;
  value.bits = code;
  return static_cast<float>(value);
}

}  // namespace

CodebookMatrix CodebookMatrix::quantize_nf4(const Tensor& w, std::string_view name, std::int64_t group) {
  INGOT_CHECK(w.rank() != 2 || (group > 0 && group % 64 == 0 && w.dim(1) % group == 0),
              InvalidConfig(std::string(name),
                            fmt::format("a row has {} columns, which groups of {} (a multiple of 64) do not "
                                        "divide",
                                        w.dim(1), group)));
  return round_groups(
      PackedFormat::nf4, w, group, name, [](float top) { return top; }, nearest_nf4);
}

CodebookMatrix CodebookMatrix::quantize_fp8(const Tensor& w, std::string_view name) {
  const std::int64_t group = w.rank() == 2 ? std::max<std::int64_t>(w.dim(1), 1) : 1;
  return round_groups(
      PackedFormat::fp8, w, group, name, [](float top) { return top / kLargestFp8; }, nearest_fp8);
}

CodebookMatrix CodebookMatrix::quantize_fp8_tiles(const Tensor& w, std::string_view name) {
  const Tensor values = as_floats(w, name);
  check_weight(values, name);
  const std::int64_t rows = w.dim(0), cols = w.dim(1), groups = (cols + kFp8Tile - 1) / kFp8Tile,
                     bands = (rows + kFp8Tile - 1) / kFp8Tile;
  CodebookMatrix m{.format = PackedFormat::fp8,
                   .rows = rows,
                   .cols = cols,
                   .group = kFp8Tile,
                   .codes = Tensor::empty({rows, cols}, DType::u8),
                   .scales = Tensor::empty({rows, groups})};
  parallel_for(bands * groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const std::int64_t group = tile % groups, first = tile / groups * kFp8Tile, column = group * kFp8Tile;
      const std::int64_t last = std::min(rows, first + kFp8Tile), width = std::min(kFp8Tile, cols - column);
      float top = 0;
      for (std::int64_t row = first; row < last; ++row)
        top = std::max(top, top_magnitude(values.data<float>() + row * cols + column, width));
      const float scale = top / kLargestFp8;
      for (std::int64_t row = first; row < last; ++row) {
        m.scales.data<float>()[row * groups + group] = scale;
        for (std::int64_t i = row * cols + column; i < row * cols + column + width; ++i)
          m.codes.data<std::uint8_t>()[i] = nearest_fp8(scale > 0 ? values.data<float>()[i] / scale : 0.0F);
      }
    }
  });
  return m;
}

namespace {

constexpr std::int64_t kNvfp4Columns = kernels::kNvfp4Block;
constexpr auto kNvfp4Codes = static_cast<std::size_t>(kNvfp4Columns);

// Of two that are as near the one with an even code.
std::uint8_t nearest_e2m1(float x) {
  const float m = std::abs(x);
  const int code = int{m > 0.25F} + int{m >= 0.75F} + int{m > 1.25F} + int{m >= 1.75F} + int{m > 2.5F} +
                   int{m >= 3.5F} + int{m > 5.0F};
  return static_cast<std::uint8_t>(x < 0 && code > 0 ? code + 8 : code);
}

// A block whose largest magnitude stands for `largest`.
struct Nvfp4Block {
  float scale = 0;  // a number of E4M3
  std::array<std::uint8_t, kNvfp4Codes> codes{};
  double error = 0;  // squared

  // `whole`: what x is multiplied by before, and its reciprocal.
  Nvfp4Block(const float* x, float top, float largest, float whole, float inverse) {
    scale = static_cast<float>(f8e4m3(std::min(top / largest * whole, kLargestFp8)));
    const float factor = std::min(1 / (scale * inverse), std::numeric_limits<float>::max());
    for (std::size_t i = 0; i < kNvfp4Codes; ++i) {
      codes[i] = nearest_e2m1(x[i] * factor);
      const double off = double{x[i]} - double{scale * inverse} * double{kernels::kE2m1Values[codes[i]]};
      error += off * off;
    }
  }
};

void check_nvfp4(const CodebookMatrix& m, std::string_view name) {
  INGOT_CHECK(m.group == kNvfp4Columns && m.cols % kNvfp4Columns == 0 && m.row_scales.defined(),
              InvalidConfig(std::string(name), fmt::format("NVFP4 has a scale for {} columns; rows of {} in "
                                                           "groups of {} were given",
                                                           kNvfp4Columns, m.cols, m.group)));
  for (std::int64_t row = 0; row < m.rows; ++row)
    INGOT_CHECK(std::isfinite(m.row_scales.data<float>()[row]),
                NonFinite(std::string(name), fmt::format("the scale of the matrix is {}; it must be finite",
                                                         m.row_scales.data<float>()[row])));
  for (std::int64_t i = 0; i < m.scales.numel(); ++i) {
    const float scale = m.scales.data<float>()[i];
    INGOT_CHECK(!std::isfinite(scale) || static_cast<float>(f8e4m3(scale)) == scale,
                InvalidConfig(std::string(name),
                              fmt::format("scale {} is {}, which is not a number of E4M3", i, scale)));
  }
}

}  // namespace

CodebookMatrix CodebookMatrix::quantize_nvfp4(const Tensor& w, std::string_view name, bool four_over_six) {
  INGOT_CHECK(w.rank() != 2 || w.dim(1) % kNvfp4Columns == 0,
              InvalidConfig(std::string(name), fmt::format("a row has {} columns, which blocks of {} do not "
                                                           "divide",
                                                           w.dim(1), kNvfp4Columns)));
  const Tensor values = as_floats(w, name);
  check_weight(values, name);
  CodebookMatrix m{.format = PackedFormat::nvfp4,
                   .rows = w.dim(0),
                   .cols = w.dim(1),
                   .group = kNvfp4Columns,
                   .codes = Tensor::empty({w.dim(0), w.dim(1)}, DType::u8),
                   .scales = Tensor::empty({w.dim(0), w.dim(1) / kNvfp4Columns}),
                   .row_scales = Tensor::empty({w.dim(0)})};
  const float top = top_magnitude(values.data<float>(), values.numel());
  // 256: the largest scale whose 3/2, that of a block whose largest number is 4, is a number of E4M3.
  const float largest = kernels::kE2m1Largest * (four_over_six ? 256.0F : kLargestFp8);
  const float limited = std::min(largest / top, std::numeric_limits<float>::max());
  const float whole = top > 0 ? limited : 1, inverse = 1 / whole;
  std::fill_n(m.row_scales.data<float>(), m.rows, inverse);
  parallel_for(m.scales.numel(), 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      const float* x = values.data<float>() + g * kNvfp4Columns;
      const float most = top_magnitude(x, kNvfp4Columns);
      Nvfp4Block block(x, most, kernels::kE2m1Largest, whole, inverse);
      if (four_over_six) {
        const Nvfp4Block four(x, most, 4, whole, inverse);
        if (four.error < block.error) block = four;
      }
      m.scales.data<float>()[g] = block.scale;
      std::ranges::copy(block.codes, m.codes.data<std::uint8_t>() + g * kNvfp4Columns);
    }
  });
  return m;
}

Tensor CodebookMatrix::dequantize() const {
  Tensor y = Tensor::empty({rows, cols});
  const std::int64_t groups = scales.dim(1);
  const auto scale_at = [&](std::int64_t row, std::int64_t group_at) {
    const float scale = scales.data<float>()[row * groups + group_at];
    return row_scales.defined() ? row_scales.data<float>()[row] * scale : scale;
  };
  parallel_for(rows, 1 + 16384 / std::max<std::int64_t>(cols, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t c = 0; c < cols; ++c)
        y.data<float>()[row * cols + c] =
            value_of(format, codes.data<std::uint8_t>()[row * cols + c]) * scale_at(row, c / group);
    }
  });
  return y;
}

void CodebookMatrix::check(std::string_view name) const {
  if (format == PackedFormat::nvfp4) check_nvfp4(*this, name);
  INGOT_CHECK(
      format == PackedFormat::nvfp4 || (group > 0 && (group % 64 == 0 || group >= cols)),
      InvalidConfig(std::string(name),
                    fmt::format("groups of {} columns in rows of {}: a group must be a multiple of 64, "
                                "or the whole row",
                                group, cols)));
  for (std::int64_t i = 0; i < scales.numel(); ++i)
    INGOT_CHECK(std::isfinite(scales.data<float>()[i]),
                NonFinite(std::string(name),
                          fmt::format("scales: has the value {} at index {}; it must be finite: the file is "
                                      "damaged, or the model that was quantized had diverged",
                                      scales.data<float>()[i], i)));
  const bool four_bits = format != PackedFormat::fp8;
  const int most = four_bits ? 15 : 0x7e;  // 0x7f and 0xff are NaN
  for (std::int64_t i = 0; i < codes.numel(); ++i) {
    const int code = codes.data<std::uint8_t>()[i] & (four_bits ? 0xff : 0x7f);
    INGOT_CHECK(code <= most,
                NonFinite(std::string(name), fmt::format("element {} (row {}, column {}) is not a number", i,
                                                         i / cols, i % cols)));
  }
}

}  // namespace ingot::quant
