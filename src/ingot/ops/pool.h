#pragma once

#include <array>

#include "ingot/core/tensor.h"
#include "ingot/ops/conv.h"

namespace ingot {

/// `stride` 0 is the window itself, so that windows do not overlap. `padding` is before the first element of
/// an axis, `padding_end` after the last (-1: as much as before). With `ceil` a last window counts that
/// reaches beyond the padding, where it begins before the input's end; what lies beyond is not part of its
/// mean.
struct Pool1dOptions {
  std::int64_t window = 1, stride = 0, padding = 0, dilation = 1;
  bool count_padding = true;  ///< average only
  ChannelLayout layout = ChannelLayout::first;
  std::int64_t padding_end = -1;
  bool ceil = false;
};
struct Pool2dOptions {
  std::array<std::int64_t, 2> window{1, 1}, stride{0, 0}, padding{0, 0}, dilation{1, 1};
  bool count_padding = true;
  ChannelLayout layout = ChannelLayout::first;
  std::array<std::int64_t, 2> padding_end{-1, -1};
  bool ceil = false;
};

/// Largest or mean value of each window; x: [N, C, W] or [N, C, H, W], or with the channels last. Padding is
/// less than the window reaches over. A dilated window that holds no element has -inf, or a mean of 0 (NaN
/// where padding does not count). Output sizes as for a convolution. Throws DimensionMismatch or
/// InvalidConfig.
Tensor max_pool1d(const Tensor& x, const Pool1dOptions& options);
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options);
Tensor avg_pool1d(const Tensor& x, const Pool1dOptions& options);
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options);

/// Means over `size` windows that cover each axis evenly; window i of n over s positions is
/// [floor(i·s / n), ceil((i + 1)·s / n)).
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t size, ChannelLayout layout = ChannelLayout::first);
Tensor adaptive_avg_pool2d(const Tensor& x, std::array<std::int64_t, 2> size,
                           ChannelLayout layout = ChannelLayout::first);
/// The mean over all positions: x [N, C, ...] (or channels last) to [N, C].
Tensor global_avg_pool(const Tensor& x, ChannelLayout layout = ChannelLayout::first);

}  // namespace ingot
