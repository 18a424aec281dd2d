#pragma once

#include "ingot/onnx/op.h"

namespace ingot::onnx {

// Operators of programs on images whose channels lie in blocks (ops/blocked_conv.h).

/// Inputs: image, prepacked weight, bias and residual, which may be left out. `fused_relu` ends with it;
/// `fused_over_residual`: the result may take the residual's memory; `fused_onto_part`: it does, and the
/// residual is what other channels of the image gave.
extern const OpRow kBlockedConv;
/// ConvTranspose whose strides are its kernel, `fused_kernel`. Inputs: image, weight as that of a
/// convolution, prepacked, and bias, which may be left out.
extern const OpRow kBlockedConvTranspose;
/// QLinearConv. Inputs: codes of an image, prepacked weight, bias or nothing, and what the sums are scaled
/// by. Its zero points are `fused_x_zero` and `fused_y_zero`; `fused_signed`: the result is i8.
extern const OpRow kBlockedQuantizedConv;
/// MaxPool and AveragePool of an image in blocks.
extern const OpRow kBlockedPool;
/// Of an image with `channels`, as its reader takes them.
extern const OpRow kToChannelBlocks;
/// `channels` of them.
extern const OpRow kFromChannelBlocks;

}  // namespace ingot::onnx
