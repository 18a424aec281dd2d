#pragma once

#include <cstdint>
#include <string_view>

#include "ingot/quant/packed_matrix.h"

namespace ingot::quant {

/// Where a matrix in tiles can be cut: at multiples of so many rows, and of so many columns.
std::int64_t row_unit(const PackedMatrix& matrix);
std::int64_t column_unit(const PackedMatrix& matrix);

/// Rows, or columns, [begin, end) of a matrix on the CPU: the same values, in memory of their own.
/// InvalidConfig, which names the weight, where the cut is inside a unit, or columns have an order of their
/// own (GPTQ's g_idx).
PackedPtr slice_rows(const PackedMatrix& matrix, std::int64_t begin, std::int64_t end,
                     std::string_view name = "the weight");
PackedPtr slice_columns(const PackedMatrix& matrix, std::int64_t begin, std::int64_t end,
                        std::string_view name = "the weight");

}  // namespace ingot::quant
