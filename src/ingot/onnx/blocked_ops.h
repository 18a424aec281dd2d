#pragma once

#include "ingot/onnx/op.h"

namespace ingot::onnx {

// Operators of programs on images whose channels lie in blocks (ops/blocked_conv.h).

/// Inputs: image, prepacked weight, bias and residual, which may be left out. `fused_relu` ends with it.
extern const OpRow kBlockedConv;
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
