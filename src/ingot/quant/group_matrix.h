#pragma once

#include <string_view>

#include "ingot/quant/packed_matrix.h"

namespace ingot::quant {

/// A weight [rows, cols] of whole-numbered codes with a scale and a zero point for each group of columns:
/// value = scale · (code − zero). What int4 and int8 groups, GPTQ, AWQ and ternary weights have in common.
struct GroupMatrix {
  int bits = 4;  ///< 2, 4 or 8
  std::int64_t rows = 0, cols = 0;
  std::int64_t group = 0;  ///< columns
  Tensor codes;            ///< u8 [rows, cols], one a byte
  Tensor scales;           ///< f32 [rows, cols / group], of values that f16 has
  Tensor zeros;            ///< u8 [rows, cols / group]
  Tensor order;            ///< i64 [cols] or none: column i here is the weight's column order[i]

  static GroupMatrix quantize(const Tensor& w, const GroupOptions& options,
                              std::string_view name = "the weight");
  /// BitNet b1.58 (Ma et al. 2024): scale = mean |w| of the whole matrix, codes −1, 0, 1.
  static GroupMatrix quantize_ternary(const Tensor& w, std::string_view name = "the weight");
  /// f32 [rows, cols], columns in the weight's own order.
  Tensor dequantize() const;
  /// Throws errors that name the weight and the field: a group that does not divide a row, NaN or infinite
  /// scales, zero points that 8-bit codes cannot have, an order that is none.
  void check(std::string_view name) const;
};

/// In tiles, with the same values; scales that f16 lacks are rounded to it.
PackedPtr pack(const GroupMatrix& matrix, std::string_view name = "the weight");

/// In tiles of w8a8: 8 bits, one scale for a row, whose matmuls round activations with one scale for a row
/// too. At most kMostRowScaledCols columns, in their own order.
PackedPtr pack_row_scaled(const GroupMatrix& matrix, std::string_view name = "the weight");

}  // namespace ingot::quant
