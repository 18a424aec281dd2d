#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include "ingot/core/tensor.h"
#include "ingot/quant/packed_matrix.h"

namespace ingot::quant {

/// What a format keeps of a weight [rows, cols]: it has the values again, f32 [rows, cols], and its tiles.
template <class Matrix>
concept Dequantize = requires(const Matrix& matrix) {
  { matrix.rows } -> std::convertible_to<std::int64_t>;
  { matrix.cols } -> std::convertible_to<std::int64_t>;
  { matrix.dequantize() } -> std::same_as<Tensor>;
  { pack(matrix) } -> std::same_as<PackedPtr>;
};

/// How a format rounds a weight (f32, bf16 or f16 [rows, cols]); the name is the weight's, for errors.
template <class Rounding>
concept Quantize = requires(const Rounding& rounding, const Tensor& weight, std::string_view name) {
  { rounding(weight, name) } -> Dequantize;
};

}  // namespace ingot::quant
