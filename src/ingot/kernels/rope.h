#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// Which elements turn and by what. Pairs of the first R = 2·table width elements of a head are (i, i + R/2)
/// (the rotate-half layout of Hugging Face), or (2i, 2i + 1) when interleaved; elements from R on, and heads
/// from `rotated_heads` on, do not turn. cos, sin: [P, R/2], f32, contiguous. positions: [B, S] i64 or i32
/// (row stride 0 for one row for all), or absent: `offset`, offset + 1, ...
struct RopeAngles {
  View cos, sin;
  View positions{};
  std::int64_t offset = 0;
  std::int64_t rotated_heads = 0;
  bool interleaved = false;
};

/// Rotary position embedding (Su et al. 2021): pairs of elements of each head are turned by the angle of
/// their position; what does not turn is copied. x, y: [B, S, H, D], any strides but adjacent last axes; y
/// may be x. also_x, also_y: a second pair [B, S, other heads, D] of x's dtype, turned alike; or absent. With
/// `inverse` the angles change sign: the gradient. With `accumulate`, y += instead of y =.
struct RopeArgs {
  View x, y;
  RopeAngles angles;
  View also_x{}, also_y{};
  bool inverse = false;
  bool accumulate = false;

  /// The second pair in place of the first.
  RopeArgs also() const {
    RopeArgs other = *this;
    other.x = also_x;
    other.y = also_y;
    other.also_x = other.also_y = {};
    return other;
  }
};
inline Kernel<RopeArgs> rope("rope");

}  // namespace ingot::kernels
