#pragma once

#include "ingot/quant/packed_matrix.h"

namespace ingot::quant {

/// The input of one or more products with packed weights: x f32 [..., in], rounded to int8 on the first
/// product that needs it and then shared (Q, K and V; gate and up). With dense weights alone, any dtype. Not
/// for use by several threads at once.
class Activations {
 public:
  explicit Activations(const Tensor& x) : x_(x) {}
  const Tensor& x() const { return x_; }
  /// u8 [rows of x, blocks · 64]: ActivationBlocks of 32 columns, at least `blocks` of them, of the columns
  /// in `order` (i64 [in], or none: as they are).
  const Tensor& rounded(std::int64_t blocks, const Tensor& order = {}) const;
  /// u8 [rows of x, 64 + codes]: an ActivationRow and its codes, a multiple of 64.
  const Tensor& rounded_rows() const;

 private:
  Tensor x_;
  mutable Tensor rounded_, order_, rounded_rows_;
};

/// x · weightᵀ + bias, f32 [..., out]; no gradient. Formats of whole-numbered codes multiply x as rounded(),
/// w8a8 as rounded_rows(); NF4 and FP8 take x as it is. One row's result has the same bits whatever the
/// number of rows, threads, and the instruction set. Throws ShapeMismatch.
Tensor linear(const Activations& x, const PackedMatrix& weight, const Tensor& bias = {});
Tensor linear(const Tensor& x, const PackedMatrix& weight, const Tensor& bias = {});

}  // namespace ingot::quant
