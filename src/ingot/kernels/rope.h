#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// Which elements rotate and by what. Pairs of the first R = 2·table width elements of a head are (i, i +
/// R/2) (the rotate-half layout of Hugging Face), or (2i, 2i + 1) when interleaved; elements from R on, and
/// heads from `rotated_heads` on, do not rotate. cos, sin: [P, R/2], f32, contiguous. positions: [B, S] i64
/// or i32 (row stride 0 for one row for all), or absent: `offset`, offset + 1, ...
struct RopeAngles {
  View cos, sin;
  View positions{};
  std::int64_t offset = 0;
  std::int64_t rotated_heads = 0;
  bool interleaved = false;
};

/// Rotary position embedding (Su et al. 2021): pairs of elements of each head are rotated by the angle of
/// their position; what does not rotate is copied. x, y: [B, S, H, D], any strides but adjacent last axes;
/// y may be x. also_x, also_y: a second pair [B, S, other heads, D] of x's dtype, rotated alike; or absent.
/// With `inverse` the angles change sign: the gradient. With `accumulate`, y += instead of y =.
struct RopeArgs {
  View x, y;
  RopeAngles angles;
  View also_x{}, also_y{};
  bool inverse = false;
  bool accumulate = false;

  /// The second pair instead of the first.
  RopeArgs also() const {
    RopeArgs other = *this;
    other.x = also_x;
    other.y = also_y;
    other.also_x = other.also_y = {};
    return other;
  }
};
inline Kernel<RopeArgs> rope("rope");

/// rms_norm (kernels/norm.h) of each head, rounded to x's dtype, then rope: the bits of the one after the
/// other for heads of up to 512 elements. What does not rotate is normalized only. x, y: [B, S, H, D], any
/// strides but adjacent last axes; y may be x. weight: [D], x's dtype, contiguous, one for all heads. rstd:
/// [B, S, H], contiguous, f32 (f64 for f64), written; or absent. also_...: a second tensor of x's dtype, with
/// its own number of heads, or absent.
struct RmsNormRopeArgs {
  View x, weight, y, rstd;
  RopeAngles angles;
  float eps;
  float weight_offset = 0.0F;
  View also_x{}, also_weight{}, also_y{}, also_rstd{};

  /// The second tensor instead of the first.
  RmsNormRopeArgs also() const {
    RmsNormRopeArgs other = *this;
    other.x = also_x;
    other.weight = also_weight;
    other.y = also_y;
    other.rstd = also_rstd;
    other.also_x = other.also_weight = other.also_y = other.also_rstd = {};
    return other;
  }
};
inline Kernel<RmsNormRopeArgs> rms_norm_rope("rms_norm_rope");

/// Gradients of rms_norm_rope: dy rotated back, rounded to its dtype, then rms_norm_backward, whose bits dx
/// has where y has; dweight may differ by the order of its sum. x, dy, dx: [B, S, H, D], any strides but
/// adjacent last axes. dx and dweight may be absent; each has its own accumulate flag. `partials` is scratch
/// of [scratch_parts(device), D] in the accumulator dtype, needed with dweight.
struct RmsNormRopeBackwardArgs {
  View x, weight, rstd, dy, dx, dweight, partials;
  RopeAngles angles;
  float weight_offset = 0.0F;
  bool accumulate_dx = false;
  bool accumulate_dweight = false;
};
inline Kernel<RmsNormRopeBackwardArgs> rms_norm_rope_backward("rms_norm_rope_backward");

}  // namespace ingot::kernels
