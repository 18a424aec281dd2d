#include "ingot/quant/group_matrix.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/core/dtype.h"
#include "ingot/quant/floats.h"
#include "ingot/quant/ternary.h"

namespace ingot::quant {
namespace {

float f16_value(float x) { return static_cast<float>(f16(x)); }

void check_finite(const Tensor& values, std::string_view name, std::string_view field) {
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const float value = values.data<float>()[i];
    INGOT_CHECK(std::isfinite(value) && std::isfinite(f16_value(value)),
                NonFinite(std::string(name),
                          fmt::format("{} {} at index {}; {}", field, value, i,
                                      std::isfinite(value) ? "it must be within f16's range (65504)"
                                                           : "it must be finite: the file is damaged, or the "
                                                             "model that was quantized had diverged")));
  }
}

// Rounds the columns of one group; the scale is one that f16 has, so that packing changes nothing.
void round_group(const float* x, std::int64_t n, const GroupOptions& o, std::uint8_t* codes, float& scale,
                 std::uint8_t& zero) {
  const auto top = static_cast<float>((1 << o.bits) - 1);
  const auto [low, high] = std::minmax_element(x, x + n);
  if (o.symmetric) {
    const float middle = static_cast<float>(1 << (o.bits - 1));
    scale = f16_value(std::max(std::abs(*low), std::abs(*high)) / (middle - 1));
    zero = static_cast<std::uint8_t>(middle);
  } else {
    const float least = std::min(*low, 0.0F);  // 0 has a code of its own
    scale = f16_value((std::max(*high, 0.0F) - least) / top);
    zero = scale > 0 ? static_cast<std::uint8_t>(std::clamp(std::nearbyint(-least / scale), 0.0F, top))
                     : std::uint8_t{0};
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const float code =
        scale > 0 ? std::nearbyint(x[i] / scale) + static_cast<float>(zero) : static_cast<float>(zero);
    codes[i] = static_cast<std::uint8_t>(std::clamp(code, 0.0F, top));
  }
}

GroupMatrix empty_groups(int bits, const Tensor& w, std::int64_t group) {
  GroupMatrix m{.bits = bits,
                .rows = w.dim(0),
                .cols = w.dim(1),
                .group = group,
                .codes = {},
                .scales = {},
                .zeros = {},
                .order = {}};
  m.codes = Tensor::empty({m.rows, m.cols}, DType::u8);
  m.scales = Tensor::empty({m.rows, m.cols / group});
  m.zeros = Tensor::empty({m.rows, m.cols / group}, DType::u8);
  return m;
}

}  // namespace

GroupMatrix GroupMatrix::quantize(const Tensor& w, const GroupOptions& o, std::string_view name) {
  const Tensor values = as_floats(w, name);
  check_finite(values, name, "has the value");
  INGOT_CHECK((o.bits == 4 || o.bits == 8) && (o.bits == 4 || o.symmetric),
              InvalidConfig("bits", "groups have 4 bits, or 8 without zero points"));
  const std::int64_t cols = w.dim(1), group = o.group == 0 ? cols : o.group;
  INGOT_CHECK(
      group > 0 && cols % group == 0,
      InvalidConfig(std::string(name),
                    fmt::format("a row has {} columns, which groups of {} do not divide", cols, group)));
  GroupMatrix m = empty_groups(o.bits, w, group);
  for (std::int64_t g = 0; g < m.scales.numel(); ++g)
    round_group(values.data<float>() + g * group, group, o, m.codes.data<std::uint8_t>() + g * group,
                m.scales.data<float>()[g], m.zeros.data<std::uint8_t>()[g]);
  return m;
}

GroupMatrix GroupMatrix::quantize_ternary(const Tensor& w, std::string_view name) {
  const Tensor values = as_floats(w, name);
  check_finite(values, name, "has the value");
  const float scale = ternary_scale(values).data<float>()[0];
  GroupMatrix m = empty_groups(2, w, w.dim(1));
  std::fill_n(m.scales.data<float>(), m.scales.numel(), scale);
  std::fill_n(m.zeros.data<std::uint8_t>(), m.zeros.numel(), std::uint8_t{1});
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const float code =
        scale > 0 ? std::clamp(std::nearbyint(values.data<float>()[i] / scale), -1.0F, 1.0F) : 0.0F;
    m.codes.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(code + 1);
  }
  return m;
}

Tensor GroupMatrix::dequantize() const {
  Tensor y = Tensor::empty({rows, cols});
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    const std::int64_t row = i / cols, col = i % cols, g = row * scales.dim(1) + col / group;
    const std::int64_t to = order.defined() ? order.data<std::int64_t>()[col] : col;
    y.data<float>()[row * cols + to] =
        scales.data<float>()[g] *
        static_cast<float>(codes.data<std::uint8_t>()[i] - zeros.data<std::uint8_t>()[g]);
  }
  return y;
}

void GroupMatrix::check(std::string_view name) const {
  const std::int64_t least = bits == 2 ? cols : 32;
  INGOT_CHECK(
      group > 0 && cols % group == 0 && (group % least == 0 || group == cols),
      InvalidConfig(std::string(name),
                    fmt::format("groups of {} columns in rows of {}: a group must divide the row and be a "
                                "multiple of {}",
                                group, cols, least)));
  check_finite(scales, name, "scales: has the value");
  if (bits == 8) {
    for (std::int64_t g = 0; g < zeros.numel(); ++g)
      INGOT_CHECK(
          zeros.data<std::uint8_t>()[g] == 128,
          InvalidConfig(std::string(name), fmt::format("zeros: {} at index {}; 8-bit codes must be symmetric "
                                                       "(zero 128)",
                                                       zeros.data<std::uint8_t>()[g], g)));
  }
  if (!order.defined()) return;
  std::vector<bool> seen(static_cast<std::size_t>(cols));
  for (std::int64_t i = 0; i < cols; ++i) {
    const std::int64_t at = order.data<std::int64_t>()[i];
    INGOT_CHECK(
        at >= 0 && at < cols && !seen[static_cast<std::size_t>(at)],
        InvalidConfig(std::string(name), fmt::format("order: column {} at index {} is out of range, or there "
                                                     "twice",
                                                     at, i)));
    seen[static_cast<std::size_t>(at)] = true;
  }
}

}  // namespace ingot::quant
