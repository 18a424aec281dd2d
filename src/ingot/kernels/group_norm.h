#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// What a normalization applies to its result before it stores it.
enum class NormActivation : std::uint8_t { none, mish };

/// Group normalization (Wu and He 2018): x minus its mean, over its standard deviation, both over a group of
/// channels of one sample; times weight plus bias, by channel; then the activation.
/// x, y: [N, C, S], or [N, S, C] with channels_last, contiguous; weight, bias: [C]; mean, rstd: [N, groups]
/// in the accumulator dtype, written; scratch: [num_threads(), 3·C] in the accumulator dtype.
struct GroupNormArgs {
  View x, weight, bias, y, mean, rstd, scratch;
  std::int64_t groups = 1;
  float eps = 1e-5F;
  bool channels_last = false;
  NormActivation activation = NormActivation::none;
};
inline Kernel<GroupNormArgs> group_norm("group_norm");

/// Gradients of group_norm; dx, dweight and dbias may be absent. scratch: [num_threads(), (S + 7)·C] in the
/// accumulator dtype: threads sum their samples' dweight and dbias apart, then in order.
struct GroupNormBackwardArgs {
  View x, weight, bias, mean, rstd, dy, dx, dweight, dbias, scratch;
  std::int64_t groups = 1;
  bool channels_last = false;
  NormActivation activation = NormActivation::none;
  bool accumulate_dx = false, accumulate_dweight = false, accumulate_dbias = false;
};
inline Kernel<GroupNormBackwardArgs> group_norm_backward("group_norm_backward");

}  // namespace ingot::kernels
