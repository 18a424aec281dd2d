#pragma once

#include <cstdint>

#include "ingot/core/view.h"
#include "ingot/kernels/cuda/device/device_code.h"

namespace ingot::kernels::cuda {

/// An image tensor's sizes, and where its elements are.
struct Image {
  std::int64_t n, c, h, w;
  bool last;

  Image(const View& x, bool channels_last)
      : n(x.dim(0)),
        c(x.dim(channels_last ? 3 : 1)),
        h(x.dim(channels_last ? 1 : 2)),
        w(x.dim(channels_last ? 2 : 3)),
        last(channels_last) {}
  std::int64_t positions() const { return n * h * w; }
  constexpr std::int64_t total() const { return n * c * h * w; }

  struct Position {
    std::int64_t n, c, h, w;
  };
  /// The position of element i in memory.
  __device__ Position position(std::int64_t i) const {
    const std::int64_t inner = last ? c : w, middle = last ? w : h, outer = last ? h : c;
    const std::int64_t a = i % inner, b = i / inner % middle, d = i / (inner * middle) % outer;
    const std::int64_t sample = i / (inner * middle * outer);
    return last ? Position{sample, a, d, b} : Position{sample, d, b, a};
  }
  __device__ std::int64_t at(std::int64_t in, std::int64_t ic, std::int64_t ih, std::int64_t iw) const {
    return last ? ((in * h + ih) * w + iw) * c + ic : ((in * c + ic) * h + ih) * w + iw;
  }
  /// The element of channel `ic` at position `p` of [n, h, w].
  __device__ std::int64_t at_position(std::int64_t p, std::int64_t ic) const {
    const std::int64_t plane = h * w, in = p / plane;
    return last ? p * c + ic : (in * c + ic) * plane + (p - in * plane);
  }
  __device__ bool has(std::int64_t ih, std::int64_t iw) const {
    return ih >= 0 && ih < h && iw >= 0 && iw < w;
  }
};

}  // namespace ingot::kernels::cuda
