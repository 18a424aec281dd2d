#include "ingot/quant/codebook_matrix.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/core/dtype.h"
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

Tensor CodebookMatrix::dequantize() const {
  Tensor y = Tensor::empty({rows, cols});
  const std::int64_t groups = scales.dim(1);
  parallel_for(rows, 1 + 16384 / std::max<std::int64_t>(cols, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t c = 0; c < cols; ++c)
        y.data<float>()[row * cols + c] = value_of(format, codes.data<std::uint8_t>()[row * cols + c]) *
                                          scales.data<float>()[row * groups + c / group];
    }
  });
  return y;
}

void CodebookMatrix::check(std::string_view name) const {
  INGOT_CHECK(
      group > 0 && (group % 64 == 0 || group >= cols),
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
  const int most = format == PackedFormat::nf4 ? 15 : 0x7e;  // 0x7f and 0xff are NaN
  for (std::int64_t i = 0; i < codes.numel(); ++i) {
    const int code = codes.data<std::uint8_t>()[i] & (format == PackedFormat::nf4 ? 0xff : 0x7f);
    INGOT_CHECK(code <= most,
                NonFinite(std::string(name), fmt::format("element {} (row {}, column {}) is not a number", i,
                                                         i / cols, i % cols)));
  }
}

}  // namespace ingot::quant
