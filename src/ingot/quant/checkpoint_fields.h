#pragma once

#include <string_view>

#include "ingot/quant/group_matrix.h"

// What the readers of checkpoint layouts share.
namespace ingot::quant {

/// Throws unless `t` is a contiguous tensor of this shape (and, where asked for, dtype).
void check_field(const Tensor& t, const Shape& shape, std::string_view name, std::string_view field);
void check_field(const Tensor& t, const Shape& shape, DType dtype, std::string_view name,
                 std::string_view field);

/// Code number `position` of a 32-bit word of such codes.
inline int code_of(std::int32_t word, int position, int bits) {
  return static_cast<int>((static_cast<std::uint32_t>(word) >> (bits * position)) & ((1U << bits) - 1U));
}

/// Code number `position` of a stream of such codes that runs through 32-bit words, `stride` words apart:
/// what 3 bits need, whose codes cross from one word to the next.
inline int code_in_stream(const std::int32_t* words, std::int64_t stride, std::int64_t position, int bits) {
  const std::int64_t bit = position * bits, word = bit / 32, shift = bit % 32;
  std::uint64_t value = static_cast<std::uint32_t>(words[word * stride]);
  if (shift + bits > 32)
    value |= std::uint64_t{static_cast<std::uint32_t>(words[(word + 1) * stride])} << 32U;
  return static_cast<int>((value >> shift) & ((1U << bits) - 1U));
}

/// A GroupMatrix to be filled in, of `groups` groups in a row. InvalidConfig unless they divide the row.
GroupMatrix empty_group_matrix(int bits, std::int64_t rows, std::int64_t cols, std::int64_t groups,
                               std::string_view name);

/// The inputs sorted by group, each group's in their own order; none where they lie so already. InvalidConfig
/// names the first input whose group does not exist, or a group of another size.
Tensor order_of_groups(const Tensor& g_idx, const GroupMatrix& matrix, std::string_view name);
/// Where each input stands in an order; i where there is none.
std::vector<std::int64_t> positions_in(const Tensor& order, std::int64_t cols);

}  // namespace ingot::quant
