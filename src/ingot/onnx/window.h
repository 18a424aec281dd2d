#pragma once

#include <cstdint>
#include <vector>

#include "ingot/onnx/op.h"

namespace ingot::onnx {

/// Kernel, strides, dilations and padding of a convolution or pooling, over the spatial axes of an input.
struct Window {
  std::vector<std::int64_t> kernel, strides, dilations, begin, end;  ///< begin, end: padding of each axis
};

/// No kernel size, stride, dilation or padding is larger: sums of them stay far from wrapping.
inline constexpr std::int64_t kMaxWindow = std::int64_t{1} << 31;

/// An attribute of one number for each axis, all from `least` to kMaxWindow; FormatError naming the node.
std::vector<std::int64_t> read_window_numbers(const OpCall& call, const char* name, std::size_t count,
                                              std::int64_t fallback, std::int64_t least);

/// Reads the attributes, with auto_pad resolved for an input of shape x. With `ceil` padding is added at the
/// end until the last, partly covered window counts too.
Window read_window(const OpCall& call, const Shape& x, const std::vector<std::int64_t>& kernel,
                   bool ceil = false);

/// The convolution that the node's attributes describe: x [N, C, ...], weight [O, C / group, ...], bias [O]
/// or undefined.
Tensor convolution(const OpCall& call, const Tensor& x, const Tensor& weight, const Tensor& bias);

/// x [N, C, ...] with its spatial axes padded by `value`; x itself where there is nothing to pad.
Tensor pad_spatial(const Tensor& x, const Window& window, double value);

}  // namespace ingot::onnx
