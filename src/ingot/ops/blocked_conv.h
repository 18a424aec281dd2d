#pragma once

#include "ingot/core/tensor.h"
#include "ingot/ops/conv.h"

namespace ingot {

// Convolutions for inference on the CPU, of images whose channels lie in blocks, [N, C / b, H, W, b], and
// with weights that are prepacked once. Nothing here is differentiable. Any op that works element by element
// takes such an image as it is.

/// Channels of a block on this processor, b.
std::int64_t channel_block();
/// x: [N, C, H, W] in blocks; channels that fill the last one up are 0. Of any dtype of a byte or more.
Tensor to_channel_blocks(const Tensor& x);
/// The way back: the first `channels`, [N, channels, H, W].
Tensor from_channel_blocks(const Tensor& x, std::int64_t channels);

/// Whether an image of so many channels is convolved as it is, [N, C, H, W], for weights prepacked so.
bool takes_plain_image(std::int64_t channels);
/// weight: [O, C, KH, KW] f32, O a multiple of the block, prepacked for blocked_conv2d. Input channels that
/// fill the last block up are 0.
Tensor prepack_conv2d_weight(const Tensor& weight);

/// Whether a convolution of 3 × 3 at stride 1, from so many channels to so many, is faster by Winograd's
/// minimal filtering: with few channels its transformations cost more than the multiplications that they
/// save, and with many its weights, 16 for each 9, more than those of small images.
bool takes_winograd(std::int64_t inputs, std::int64_t outputs);
/// weight: [O, C, 3, 3] f32, transformed for blocked_conv2d: [16, C, O]. Results may differ from those of
/// other weights by a few roundings.
Tensor prepack_winograd_weight(const Tensor& weight);

struct BlockedConvOptions {
  std::array<std::int64_t, 2> stride{1, 1}, padding{0, 0}, padding_end{0, 0}, dilation{1, 1};
  bool relu = false;
  bool over_residual = false;  ///< the result takes the residual's memory, which nothing else needs
};
/// The shape of blocked_conv2d's result.
Shape blocked_conv2d_shape(const Tensor& x, const Tensor& weight, const BlockedConvOptions& options);
/// conv2d(x, weight) + bias + residual, then max(0, ·) where asked for: [N, O / b, OH, OW, b], f32. x: in
/// blocks, or where takes_plain_image() as it is; weight: from prepack_conv2d_weight; bias: [O] or undefined;
/// residual: the result's shape, or undefined. With weights of
/// prepack_winograd_weight, stride and dilation are 1. Throws ShapeMismatch or DimensionMismatch.
Tensor blocked_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                      const BlockedConvOptions& options);

/// weight: [C, O, KH, KW] f32 of a transposed convolution whose strides are its kernel, as that of a
/// convolution, [KH · KW · O, C, 1, 1], which makes the KH · KW positions of each input one after another.
Tensor spread_conv2d_weight(const Tensor& weight);
/// What such a convolution makes, [N, KH · KW · O / b, H, W, b], as one image: [N, O / b, H · KH, W · KW, b].
Tensor spread_channel_blocks(const Tensor& x, std::array<std::int64_t, 2> kernel);

/// weight: u8 or i8 [O, C, KH, KW], O a multiple of the block, less its zero point, [1] or [O] of its dtype
/// or undefined, prepacked for quantized_conv2d.
Tensor prepack_quantized_conv2d_weight(const Tensor& weight, const Tensor& zero);
/// Whether sums of so many products, C · KH · KW, stay within 32 bits.
bool takes_quantized_depth(std::int64_t depth);

struct QuantizedConvOptions {
  BlockedConvOptions conv;  ///< without relu
  std::int32_t x_zero = 0, y_zero = 0;
  DType codes = DType::u8;  ///< of the result
};
/// The convolution of x less its zero point, plus bias, in whole numbers, exact; then times scale, rounded
/// half to even, and plus the result's zero point. x: u8 or i8 in blocks, of which channels without weights
/// count as 0; weight: from prepack_quantized_conv2d_weight; bias: i32 [O] or undefined; scale: f32 [O].
/// Throws ShapeMismatch, DimensionMismatch or KernelError (a dtype).
Tensor quantized_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& scale,
                        const QuantizedConvOptions& options);

}  // namespace ingot
