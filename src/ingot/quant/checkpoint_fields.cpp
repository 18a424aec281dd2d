#include "ingot/quant/checkpoint_fields.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot::quant {

void check_field(const Tensor& t, const Shape& shape, std::string_view name, std::string_view field) {
  INGOT_CHECK(t.defined() && t.is_contiguous() && t.shape() == shape,
              ShapeMismatch(fmt::format("{}.{}", name, field), shape.to_vector(),
                            t.defined() ? t.shape().to_vector() : std::vector<std::int64_t>{}));
}

void check_field(const Tensor& t, const Shape& shape, DType dtype, std::string_view name,
                 std::string_view field) {
  check_field(t, shape, name, field);
  INGOT_CHECK(t.dtype() == dtype,
              InvalidConfig(fmt::format("{}.{}", name, field),
                            fmt::format("must be {}, is {}", ingot::name(dtype), ingot::name(t.dtype()))));
}

GroupMatrix empty_group_matrix(int bits, std::int64_t rows, std::int64_t cols, std::int64_t groups,
                               std::string_view name) {
  INGOT_CHECK(
      rows > 0 && cols > 0 && groups > 0 && cols % groups == 0,
      InvalidConfig(
          std::string(name),
          fmt::format("has {} groups of scales for {} inputs; groups must divide the inputs", groups, cols)));
  GroupMatrix m{.bits = bits,
                .rows = rows,
                .cols = cols,
                .group = cols / groups,
                .codes = {},
                .scales = {},
                .zeros = {},
                .order = {}};
  m.codes = Tensor::empty({rows, cols}, DType::u8);
  m.scales = Tensor::empty({rows, groups});
  m.zeros = Tensor::empty({rows, groups}, DType::u8);
  return m;
}

Tensor order_of_groups(const Tensor& g_idx, const GroupMatrix& m, std::string_view name) {
  const std::int64_t groups = m.scales.dim(1);
  std::vector<std::int64_t> order(static_cast<std::size_t>(m.cols)), count(static_cast<std::size_t>(groups));
  const auto* group = g_idx.data<std::int32_t>();
  for (std::int64_t k = 0; k < m.cols; ++k) {
    INGOT_CHECK(
        group[k] >= 0 && group[k] < groups,
        InvalidConfig(fmt::format("{}.g_idx", name),
                      fmt::format("input {} is in group {}, but scales has {} groups", k, group[k], groups)));
    ++count[static_cast<std::size_t>(group[k])];
  }
  for (std::int64_t g = 0; g < groups; ++g)
    INGOT_CHECK(count[static_cast<std::size_t>(g)] == m.group,
                InvalidConfig(fmt::format("{}.g_idx", name),
                              fmt::format("group {} has {} inputs instead of {}", g,
                                          count[static_cast<std::size_t>(g)], m.group)));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::int64_t k) { return group[k]; });
  return std::ranges::is_sorted(order) ? Tensor() : Tensor::from(order, {m.cols});
}

std::vector<std::int64_t> positions_in(const Tensor& order, std::int64_t cols) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(cols));
  for (std::int64_t i = 0; i < cols; ++i) {
    const std::int64_t k = order.defined() ? order.data<std::int64_t>()[i] : i;
    positions[static_cast<std::size_t>(k)] = i;
  }
  return positions;
}

}  // namespace ingot::quant
