#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// x / sqrt(mean(x², last axis) + eps) * (weight_offset + weight)   (Zhang and Sennrich 2019).
/// x: [..., d]; weight: [d]; Gemma's weights are stored minus 1 (weight_offset 1). Throws ShapeMismatch when
/// weight is not [d].
Tensor rms_norm(const Tensor& x, const Tensor& weight, float eps = 1e-5F, float weight_offset = 0.0F);

/// (x - mean) / sqrt(variance + eps) * weight + bias over the last axis (Ba et al. 2016). x: [..., d]; weight
/// and bias: [d], each may be undefined. Throws ShapeMismatch.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, float eps = 1e-5F);

struct NormedSum {
  Tensor sum, normed;
};

/// A residual connection and the norm of it in one pass: sum = x + residual, normed = rms_norm(sum, ...).
/// x, residual: [..., d], one shape. The sum goes to `sum` where that is given (contiguous, of x's shape and
/// dtype; without gradients), else to a new tensor. Throws ShapeMismatch.
NormedSum add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, float eps = 1e-5F,
                       float weight_offset = 0.0F, const Tensor& sum = {});

/// The same with layer_norm(sum, ...).
NormedSum add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                         float eps = 1e-5F, const Tensor& sum = {});

}  // namespace ingot
