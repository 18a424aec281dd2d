#include "ingot/quant/packed_checkpoints.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/quant/floats.h"

namespace ingot::quant {
namespace {

void check_field(const Tensor& t, const Shape& shape, std::string_view name, std::string_view field,
                 bool words) {
  const std::string where = fmt::format("{}.{}", name, field);
  INGOT_CHECK(t.defined() && t.is_contiguous() && t.shape() == shape,
              ShapeMismatch(where, shape.to_vector(),
                            t.defined() ? t.shape().to_vector() : std::vector<std::int64_t>{}));
  INGOT_CHECK(!words || t.dtype() == DType::i32,
              InvalidConfig(where, fmt::format("must be i32, is {}", ingot::name(t.dtype()))));
}

int nibble(const Tensor& words, std::int64_t word, int place) {
  return static_cast<int>((static_cast<std::uint32_t>(words.data<std::int32_t>()[word]) >> (4 * place)) &
                          15U);
}

struct Sizes {
  std::int64_t k, n, groups, group;
};

Sizes sizes_of(std::int64_t k, const Tensor& scales, std::string_view name) {
  INGOT_CHECK(scales.defined() && scales.rank() == 2 && scales.dim(0) > 0,
              DimensionMismatch(fmt::format("{}.scales must be [groups, outputs]", name)));
  const std::int64_t groups = scales.dim(0), n = scales.dim(1);
  INGOT_CHECK(k % groups == 0 && n % 8 == 0 && k > 0,
              InvalidConfig(std::string(name),
                            fmt::format("scales has {} groups for {} inputs and {} outputs; groups must "
                                        "divide the inputs, and 8 the outputs",
                                        groups, k, n)));
  return {k, n, groups, k / groups};
}

GroupMatrix empty_matrix(const Sizes& s) {
  GroupMatrix m{.bits = 4,
                .rows = s.n,
                .cols = s.k,
                .group = s.group,
                .codes = {},
                .scales = {},
                .zeros = {},
                .order = {}};
  m.codes = Tensor::empty({s.n, s.k}, DType::u8);
  m.scales = Tensor::empty({s.n, s.groups});
  m.zeros = Tensor::empty({s.n, s.groups}, DType::u8);
  return m;
}

// The inputs sorted by group, each group's in their own order; none where they lie so already.
Tensor order_of(const Tensor& g_idx, const Sizes& s, std::string_view name) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(s.k)), count(static_cast<std::size_t>(s.groups));
  const auto* group = g_idx.data<std::int32_t>();
  for (std::int64_t k = 0; k < s.k; ++k) {
    INGOT_CHECK(group[k] >= 0 && group[k] < s.groups,
                InvalidConfig(
                    fmt::format("{}.g_idx", name),
                    fmt::format("input {} is in group {}, but scales has {} groups", k, group[k], s.groups)));
    ++count[static_cast<std::size_t>(group[k])];
  }
  for (std::int64_t g = 0; g < s.groups; ++g)
    INGOT_CHECK(count[static_cast<std::size_t>(g)] == s.group,
                InvalidConfig(fmt::format("{}.g_idx", name),
                              fmt::format("group {} has {} inputs instead of {}", g,
                                          count[static_cast<std::size_t>(g)], s.group)));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::int64_t k) { return group[k]; });
  return std::ranges::is_sorted(order) ? Tensor() : Tensor::from(order, {s.k});
}

}  // namespace

GroupMatrix from_gptq(const GptqTensors& t, std::string_view name) {
  INGOT_CHECK(t.qweight.defined() && t.qweight.rank() == 2,
              DimensionMismatch(fmt::format("{}.qweight must be [inputs / 8, outputs]", name)));
  const Sizes s = sizes_of(t.qweight.dim(0) * 8, t.scales, name);
  check_field(t.qweight, {s.k / 8, s.n}, name, "qweight", true);
  check_field(t.qzeros, {s.groups, s.n / 8}, name, "qzeros", true);
  GroupMatrix m = empty_matrix(s);
  if (t.g_idx.defined()) {
    check_field(t.g_idx, {s.k}, name, "g_idx", true);
    m.order = order_of(t.g_idx, s, name);
  }
  const Tensor scales = as_floats(t.scales, fmt::format("{}.scales", name));
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t g = 0; g < s.groups; ++g) {
      m.scales.data<float>()[n * s.groups + g] = scales.data<float>()[g * s.n + n];
      const int zero =
          nibble(t.qzeros, g * (s.n / 8) + n / 8, static_cast<int>(n % 8)) + (t.zeros_less_one ? 1 : 0);
      m.zeros.data<std::uint8_t>()[n * s.groups + g] = static_cast<std::uint8_t>(zero);
    }
    for (std::int64_t i = 0; i < s.k; ++i) {
      const std::int64_t k = m.order.defined() ? m.order.data<std::int64_t>()[i] : i;
      m.codes.data<std::uint8_t>()[n * s.k + i] =
          static_cast<std::uint8_t>(nibble(t.qweight, k / 8 * s.n + n, static_cast<int>(k % 8)));
    }
  }
  return m;
}

GroupMatrix from_awq(const AwqTensors& t, std::string_view name) {
  constexpr std::array kPlace{0, 4, 1, 5, 2, 6, 3, 7};  // of column n mod 8 within its word
  INGOT_CHECK(t.qweight.defined() && t.qweight.rank() == 2,
              DimensionMismatch(fmt::format("{}.qweight must be [inputs, outputs / 8]", name)));
  const Sizes s = sizes_of(t.qweight.dim(0), t.scales, name);
  check_field(t.qweight, {s.k, s.n / 8}, name, "qweight", true);
  check_field(t.qzeros, {s.groups, s.n / 8}, name, "qzeros", true);
  GroupMatrix m = empty_matrix(s);
  const Tensor scales = as_floats(t.scales, fmt::format("{}.scales", name));
  for (std::int64_t n = 0; n < s.n; ++n) {
    const int place = kPlace[static_cast<std::size_t>(n % 8)];
    for (std::int64_t g = 0; g < s.groups; ++g) {
      m.scales.data<float>()[n * s.groups + g] = scales.data<float>()[g * s.n + n];
      m.zeros.data<std::uint8_t>()[n * s.groups + g] =
          static_cast<std::uint8_t>(nibble(t.qzeros, g * (s.n / 8) + n / 8, place));
    }
    for (std::int64_t k = 0; k < s.k; ++k)
      m.codes.data<std::uint8_t>()[n * s.k + k] =
          static_cast<std::uint8_t>(nibble(t.qweight, k * (s.n / 8) + n / 8, place));
  }
  return m;
}

}  // namespace ingot::quant
