#include "ingot/onnx/blocked_ops.h"

#include "ingot/base/error.h"
#include "ingot/onnx/window.h"
#include "ingot/ops/blocked_conv.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/pool.h"
#include "ingot/ops/view.h"

namespace ingot::onnx {
namespace {

std::array<std::int64_t, 2> pair_of(const std::vector<std::int64_t>& v) { return {v[0], v[1]}; }

/// [N, C, H, W] of an image in blocks or not.
Shape image_shape(const Tensor& x) {
  return x.rank() == 5 ? Shape{x.dim(0), x.dim(1) * x.dim(4), x.dim(2), x.dim(3)} : x.shape();
}

Values blocked_convolution(const OpCall& call) {
  const Tensor &x = call.in(0, 4, 5), &weight = call.in(1);
  const bool plain = weight.rank() == 5;
  const std::vector<std::int64_t> kernel =
      weight.rank() == 3 ? std::vector<std::int64_t>{3, 3}
                         : std::vector{weight.dim(plain ? 1 : 2), weight.dim(plain ? 2 : 3)};
  const Window w = read_window(call, image_shape(x), kernel);
  const bool relu_follows = call.integer("fused_relu", 0) != 0;
  BlockedConvOptions options{.stride = pair_of(w.strides),
                             .padding = pair_of(w.begin),
                             .padding_end = pair_of(w.end),
                             .dilation = pair_of(w.dilations),
                             .relu = relu_follows,
                             .over_residual = call.integer("fused_over_residual", 0) != 0};
  const Tensor residual = call.optional(3), bias = call.optional(2);
  if (call.integer("fused_onto_part", 0) != 0) {
    options.over_residual = true;
    return {blocked_conv2d(x, weight, bias, residual, options)};
  }
  // An Add may broadcast: then it stands behind the convolution.
  if (!residual.defined() || residual.shape() == blocked_conv2d_shape(x, weight, options))
    return {blocked_conv2d(x, weight, bias, residual, options)};
  options.relu = false;
  const Tensor sum = add(blocked_conv2d(x, weight, bias, {}, options), residual);
  return {relu_follows ? relu(sum) : sum};
}

Values blocked_transposed_convolution(const OpCall& call) {
  const Tensor y = blocked_conv2d(call.in(0, 5, 5), call.in(1, 6, 6), call.optional(2), {}, {});
  return {spread_channel_blocks(y, pair_of(call.integers("fused_kernel")))};
}

Values blocked_quantized_convolution(const OpCall& call) {
  const Tensor &x = call.in(0, 5, 5), &weight = call.in(1, 5, 5);
  const Window w = read_window(call, image_shape(x), {weight.dim(1), weight.dim(2)});
  const bool is_signed = call.integer("fused_x_signed", 0) != 0;
  INGOT_CHECK(x.dtype() == (is_signed ? DType::i8 : DType::u8),
              FormatError(call.where(), -1, "x", "has another type than its zero point"));
  return {quantized_conv2d(x, weight, call.optional(2), call.in(3),
                           {.conv = {.stride = pair_of(w.strides),
                                     .padding = pair_of(w.begin),
                                     .padding_end = pair_of(w.end),
                                     .dilation = pair_of(w.dilations)},
                            .x_zero = static_cast<std::int32_t>(call.integer("fused_x_zero", 0)),
                            .y_zero = static_cast<std::int32_t>(call.integer("fused_y_zero", 0)),
                            .codes = call.integer("fused_signed", 0) != 0 ? DType::i8 : DType::u8})};
}

Values blocked_pool(const OpCall& call) {
  const Tensor& x = call.in(0, 5, 5);
  const Window w = read_window(call, image_shape(x), call.integers("kernel_shape"));
  const bool largest = call.node().op == "MaxPool";
  const Pool2dOptions options{.window = pair_of(w.kernel),
                              .stride = pair_of(w.strides),
                              .padding = pair_of(w.begin),
                              .dilation = pair_of(w.dilations),
                              .count_padding = !largest && call.integer("count_include_pad", 0) != 0,
                              .layout = ChannelLayout::last,
                              .padding_end = pair_of(w.end),
                              .ceil = call.integer("ceil_mode", 0) != 0};
  // Each block is an image of its own.
  const Tensor values = is_floating_point(x.dtype()) ? x : to(x, DType::f32);
  const Tensor maps = reshape(values, {x.dim(0) * x.dim(1), x.dim(2), x.dim(3), x.dim(4)});
  const Tensor y = to(largest ? max_pool2d(maps, options) : avg_pool2d(maps, options), x.dtype());
  return {reshape(y, {x.dim(0), x.dim(1), y.dim(1), y.dim(2), x.dim(4)})};
}

Values to_blocks(const OpCall& call) {
  const Tensor& x = call.in(0, 4, 4);
  const std::int64_t channels = call.integer("channels", 0);
  INGOT_CHECK(x.dim(1) == channels,
              DimensionMismatch(call.where() + ": input " + to_string(x.shape()) + " for a weight of " +
                                std::to_string(channels) + " channels"));
  return {to_channel_blocks(x)};
}
Values from_blocks(const OpCall& call) {
  return {from_channel_blocks(call.in(0, 5, 5), call.integer("channels", 0))};
}

}  // namespace

const OpRow kBlockedConv{"Conv", blocked_convolution};
const OpRow kBlockedConvTranspose{"ConvTranspose", blocked_transposed_convolution};
const OpRow kBlockedQuantizedConv{"QLinearConv", blocked_quantized_convolution};
const OpRow kBlockedPool{"Pool", blocked_pool};
const OpRow kToChannelBlocks{"ToChannelBlocks", to_blocks};
const OpRow kFromChannelBlocks{"FromChannelBlocks", from_blocks};

}  // namespace ingot::onnx
