#pragma once

#include <initializer_list>

#include "ingot/core/tensor.h"

namespace ingot {

/// What the ops with a state of P × N for each head share: selective_scan() and delta_rule(). Of an op's
/// input, as its header describes it.
struct ScanOperands {
  const char* op;                ///< in errors
  const Tensor &x, &decay;       ///< [B, T, H, P], [B, T, H]
  const Tensor &keys, &queries;  ///< [B, T, G, N]
  const Tensor& starts;          ///< i32 [B, T], or undefined

  /// Throws DimensionMismatch or ShapeMismatch naming what does not fit. `state`: [B, H, P, N] or undefined.
  void check(const Tensor& state) const;
  /// The dtype to compute in: f64 of f64, f32 of all others.
  DType wide_dtype() const { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }
  /// `given`, or zeros where it is undefined. Throws Error where it is not one to compute in, or one of
  /// `inputs` needs a gradient, which would have to flow through it.
  Tensor state(const Tensor& given, std::initializer_list<const Tensor*> inputs) const;
};

/// x contiguous and of this dtype.
Tensor scan_operand(const Tensor& x, DType dtype);

/// Throws ShapeMismatch of `op` (`what`) unless x is undefined or has this shape.
void check_scan_shape(const char* op, const char* what, const Tensor& x, const Shape& expected,
                      const char* advice);

/// Sums of [B, T, H, N] over the heads of each group: [B, T, groups, N].
Tensor sum_of_groups(const Tensor& of_heads, std::int64_t groups);

}  // namespace ingot
