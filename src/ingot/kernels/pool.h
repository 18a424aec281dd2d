#pragma once

#include "ingot/kernels/conv.h"

namespace ingot::kernels {

/// What a pooling keeps of a window.
enum class PoolMode : std::uint8_t {
  max,
  average,         ///< the mean over all of the window, padding (zeros) included
  average_inside,  ///< the mean over the positions of the window that exist
};

/// Pooling over windows of `window` positions (the geometry's groups are not used). The geometry's padding is
/// in front of an axis, `padding_end` behind it; y may have a window more, which reaches beyond that and does
/// not count what lies there. With `adaptive`, window i of n over a size s is [floor(i·s / n), ceil((i + 1)·s
/// / n)) and the geometry's stride, padding and dilation are not used. x, y: rank 4 in the geometry's layout,
/// contiguous; index: y's shape, i32, or absent; written for max: the position h·W + w of the first largest
/// element (a NaN counts as the largest), -1 where a window holds none.
struct PoolArgs {
  View x, y, index;
  std::array<std::int64_t, 2> window{1, 1}, padding_end{0, 0};
  ConvGeometry geometry;
  PoolMode mode = PoolMode::max;
  bool adaptive = false;
};
inline Kernel<PoolArgs> pool("pool");

/// dx of pool. Windows may overlap: a sample's gradients are summed in `scratch`, [num_threads(), H·W·C] in
/// the accumulator dtype.
struct PoolBackwardArgs {
  View dy, index, dx, scratch;
  std::array<std::int64_t, 2> window{1, 1}, padding_end{0, 0};
  ConvGeometry geometry;
  PoolMode mode = PoolMode::max;
  bool adaptive = false, accumulate = false;
};
inline Kernel<PoolBackwardArgs> pool_backward("pool_backward");

}  // namespace ingot::kernels
