#pragma once

#include "ingot/core/tensor.h"
#include "ingot/kernels/group_norm.h"
#include "ingot/ops/conv.h"

namespace ingot {

using kernels::NormActivation;

struct GroupNormOptions {
  std::int64_t groups = 1;
  float eps = 1e-5F;
  ChannelLayout layout = ChannelLayout::first;
  /// Applied in the same pass; its input is not kept for the backward pass.
  NormActivation activation = NormActivation::none;
};

/// Normalizes each group of channels of each sample to mean 0 and variance 1, then scales and shifts by
/// channel (Wu and He 2018). x: [N, C, ...] or, with ChannelLayout::last, [N, ..., C]; weight, bias: [C].
/// Throws InvalidConfig unless the groups divide the channels, ShapeMismatch for another weight.
Tensor group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const GroupNormOptions& options = {});

}  // namespace ingot
