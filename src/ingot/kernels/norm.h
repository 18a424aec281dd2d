#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// y = x / sqrt(mean(x², last axis) + eps) * (weight_offset + weight)   (Zhang and Sennrich 2019). Gemma
/// stores its weights minus 1: weight_offset 1. x, y: [..., d], contiguous; weight: [d], x's dtype; rstd:
/// [...], f32 (f64 for f64), written. With a residual, of x's shape and contiguous, x stands for x +
/// residual, which goes to `sum`, rounded to its dtype first.
struct RmsNormArgs {
  View x, weight, y, rstd;
  float eps;
  float weight_offset = 0.0F;
  View residual, sum;
};
inline Kernel<RmsNormArgs> rms_norm("rms_norm");

/// Gradients of rms_norm. dx and dweight may be absent; each has its own accumulate flag. `partials` is
/// scratch of [scratch_parts(device), d] in the accumulator dtype, needed with dweight: threads sum rows
/// apart, then in order.
struct RmsNormBackwardArgs {
  View x, weight, rstd, dy, dx, dweight, partials;
  float weight_offset = 0.0F;
  bool accumulate_dx = false;
  bool accumulate_dweight = false;
};
inline Kernel<RmsNormBackwardArgs> rms_norm_backward("rms_norm_backward");

/// y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias over the last axis (Ba et al. 2016; biased
/// variance). x, y: [..., d], contiguous; weight, bias: [d], x's dtype, either may be absent; mean, rstd:
/// [...], f32 (f64 for f64), written. `residual` and `sum` as for rms_norm.
struct LayerNormArgs {
  View x, weight, bias, y, mean, rstd;
  float eps;
  View residual, sum;
};
inline Kernel<LayerNormArgs> layer_norm("layer_norm");

/// Gradients of layer_norm; each destination may be absent. `partials` is scratch of [scratch_parts(device),
/// 2, d] in the accumulator dtype, needed with dweight or dbias.
struct LayerNormBackwardArgs {
  View x, weight, mean, rstd, dy, dx, dweight, dbias, partials;
  bool accumulate_dx = false;
  bool accumulate_dweight = false;
  bool accumulate_dbias = false;
};
inline Kernel<LayerNormBackwardArgs> layer_norm_backward("layer_norm_backward");

}  // namespace ingot::kernels
