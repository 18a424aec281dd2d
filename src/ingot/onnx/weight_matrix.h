#pragma once

#include "ingot/core/tensor.h"

namespace ingot::onnx {

/// A weight [out, in] of matmuls.
class WeightMatrix {
 public:
  WeightMatrix() = default;
  /// `tiles`: the same values as prepacked_tiles() has them, which matmuls of f32 then read; or undefined.
  explicit WeightMatrix(Tensor dense, Tensor tiles = {});

  const Tensor& dense() const { return dense_; }
  /// Some of its rows; of tiles the bounds are multiples of kTileRows.
  WeightMatrix rows(std::int64_t first, std::int64_t count) const;
  /// x · weightᵀ + bias; x: [..., in], bias: [out] or undefined.
  Tensor apply(const Tensor& x, const Tensor& bias = {}) const;

  static constexpr std::int64_t kTileRows = 16;
  /// Whether so many rows are multiplied faster with tiles of a constant weight f32 on this processor.
  static bool prefers_tiles(const Tensor& dense, std::int64_t rows);
  /// u8 [panels, bytes].
  static Tensor prepacked_tiles(const Tensor& dense);

 private:
  Tensor dense_, tiles_;
};

}  // namespace ingot::onnx
