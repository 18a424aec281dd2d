#pragma once

#include "ingot/kernels/conv.h"

namespace ingot::kernels::cpu {

/// Whether this is a channels-last 1-d f32 convolution of stride 1 in one group, as our own kernels take it.
/// weight: [O, C, KH, KW].
inline bool is_plain_1d_conv(const ConvGeometry& g, const View& x, const View& weight) {
  return x.dtype == DType::f32 && g.channels_last && x.dim(1) == 1 && weight.dim(2) == 1 &&
         g.padding[0] == 0 && g.stride[1] == 1 && g.dilation[1] == 1 && g.groups == 1;
}

}  // namespace ingot::kernels::cpu
