#pragma once

#include "ingot/kernels/conv.h"

namespace ingot::kernels {

// Images whose channels lie in blocks, [N, C / b, H, W, b]: what a convolution on vectors of b channels reads
// and writes without rearranging. For inference on the CPU, with weights that are prepacked once.

/// Channels of a block on this processor: a vector of floats.
std::int64_t channel_block();

/// y = conv(x, weight) + bias + residual, then max(0, y) with `relu`.
/// x: [N, C / b, H, W, b] with weight [O / b, C / b, KH, KW, b, b], of which the last two axes are input and
/// output channels; or x: [N, C, H, W] with weight [O / b, KH, KW, C, b]. y: [N, O / b, OH, OW, b]; bias: [O]
/// or absent; residual: y's shape or absent, may be y itself. f32, contiguous; the geometry's groups and
/// layout are not used.
struct BlockedConvArgs {
  View x, weight, bias, residual, y;
  ConvGeometry geometry;
  bool relu = false;
};
inline Kernel<BlockedConvArgs> blocked_conv("blocked_conv");  // CPU only: cuDNN has layouts of its own
inline double flops(const BlockedConvArgs& args) {
  const double outputs = static_cast<double>(args.weight.dim(0) * args.weight.dim(-1));
  return 2 * static_cast<double>(args.y.numel()) * static_cast<double>(args.weight.numel()) / outputs;
}

}  // namespace ingot::kernels
