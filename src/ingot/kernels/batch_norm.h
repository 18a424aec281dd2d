#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// Mean and biased variance of every channel of x [N, C, S] over N and S. x: contiguous, of any floating
/// dtype; S = 1 is channels-last. mean, variance: [C], like all that is by channel here in the accumulator
/// dtype; written. scratch: f64 [scratch_parts(device), C].
struct BatchStatisticsArgs {
  View x, mean, variance, scratch;
};
inline Kernel<BatchStatisticsArgs> batch_statistics("batch_statistics");

/// y = (x − mean) / sqrt(variance + eps) · weight + bias, by channel   (Ioffe and Szegedy 2015). x, y: as
/// above, of one dtype; weight, bias: [C], either may be absent.
struct BatchNormArgs {
  View x, mean, variance, weight, bias, y;
  float eps;
};
inline Kernel<BatchNormArgs> batch_norm("batch_norm");

/// Gradients of batch_norm; each destination may be absent. dy, dx: as x. `own_statistics`: mean and variance
/// are those of x, and dx goes through them too. scratch: f64 [scratch_parts(device), 2·C].
struct BatchNormBackwardArgs {
  View x, mean, variance, weight, dy, dx, dweight, dbias, scratch;
  float eps;
  bool own_statistics = true;
  bool accumulate_dx = false, accumulate_dweight = false, accumulate_dbias = false;
};
inline Kernel<BatchNormBackwardArgs> batch_norm_backward("batch_norm_backward");

}  // namespace ingot::kernels
