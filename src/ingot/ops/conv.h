#pragma once

#include <array>

#include "ingot/core/tensor.h"

namespace ingot {

/// Where the channels of an image or a signal lie: [N, C, W] and [N, C, H, W], or [N, W, C] and [N, H, W, C].
/// Channels-last is the faster one on the CPU.
enum class ChannelLayout : std::uint8_t { first, last };

struct Conv1dOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  ChannelLayout layout = ChannelLayout::first;
};

/// Each pair is {height, width}.
struct Conv2dOptions {
  std::array<std::int64_t, 2> stride{1, 1}, padding{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;
  ChannelLayout layout = ChannelLayout::first;
};

/// Cross-correlation of x with weight: [O, C / groups, K] (PyTorch's order, in either layout), plus bias: [O]
/// where defined. Output width (W + 2·padding − dilation·(K − 1) − 1) / stride + 1. Throws ShapeMismatch,
/// DimensionMismatch or InvalidConfig naming what does not fit.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});
/// The same in two dimensions; weight: [O, C / groups, KH, KW].
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});

/// `output_padding` more positions at the end, of which there may be fewer than the stride.
struct ConvTranspose1dOptions {
  std::int64_t stride = 1, padding = 0, output_padding = 0, dilation = 1, groups = 1;
  ChannelLayout layout = ChannelLayout::first;
};
struct ConvTranspose2dOptions {
  std::array<std::int64_t, 2> stride{1, 1}, padding{0, 0}, output_padding{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;
  ChannelLayout layout = ChannelLayout::first;
};

/// The gradient of a convolution with respect to its input, as a function of its own: x [N, C, ...] with
/// weight: [C, O / groups, K], plus bias: [O] where defined. Output width (W − 1)·stride − 2·padding +
/// dilation·(K − 1) + output_padding + 1. Throws as conv1d does.
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dOptions& options = {});
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});

/// weight: [O, C, K] in the order that conv1d_packed reads it: [ceil(O / 32), K·C, 32]. Not differentiable.
Tensor pack_conv1d_weight(const Tensor& weight);
/// conv1d of stride 1 for inference, x: [N, W, C] channels-last, `packed` from pack_conv1d_weight for
/// `outputs` channels. Not differentiable; for weights that stay, it saves rearranging them on every call.
Tensor conv1d_packed(const Tensor& x, const Tensor& packed, std::int64_t outputs, std::int64_t padding,
                     const Tensor& bias = {});

}  // namespace ingot
