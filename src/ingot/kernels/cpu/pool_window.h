#pragma once

#include <algorithm>

#include "ingot/kernels/pool.h"

namespace ingot::kernels::cpu {

/// Positions of one window along one axis: first, first + step, ... below end; `size` counts those in padding
/// too.
struct WindowRange {
  std::int64_t first, end, step, size;
};

template <class Args>
WindowRange window_range(const Args& args, std::size_t axis, std::int64_t i, std::int64_t in,
                         std::int64_t out) {
  if (args.adaptive) {
    const std::int64_t first = i * in / out, end = ((i + 1) * in + out - 1) / out;
    return {first, end, 1, end - first};
  }
  const ConvGeometry& g = args.geometry;
  const std::int64_t step = g.dilation[axis], begin = i * g.stride[axis] - g.padding[axis];
  const std::int64_t skipped = begin < 0 ? (-begin + step - 1) / step : 0;
  const std::int64_t reaches = (in + args.padding_end[axis] - begin + step - 1) / step;
  return {begin + skipped * step, std::min(in, begin + args.window[axis] * step), step,
          std::min(args.window[axis], reaches)};
}

inline std::int64_t window_count(const WindowRange& r) {
  return r.end > r.first ? (r.end - r.first + r.step - 1) / r.step : 0;
}

/// One sample's sizes and strides in either layout.
struct Plane {
  std::int64_t c, h, w, channel, position;
  Plane(const View& x, bool last)
      : c(x.dim(last ? 3 : 1)),
        h(x.dim(last ? 1 : 2)),
        w(x.dim(last ? 2 : 3)),
        channel(last ? 1 : h * w),
        position(last ? c : 1) {}
  std::int64_t size() const { return c * h * w; }
};

template <class Acc>
Acc window_divisor(PoolMode mode, const WindowRange& rows, const WindowRange& columns) {
  return static_cast<Acc>(mode == PoolMode::average ? rows.size * columns.size
                                                    : window_count(rows) * window_count(columns));
}

}  // namespace ingot::kernels::cpu
