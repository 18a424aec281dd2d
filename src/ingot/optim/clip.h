#pragma once

#include <span>

#include "ingot/nn/parameter.h"

namespace ingot {

struct ClippedNorm {
  Tensor norm;    ///< of all gradients as one vector, before clipping: one f32, on the device
  Tensor factor;  ///< min(1, max_norm / (norm + 1e-6)): one f32, for StepOptions::grad_scale
};

/// The global norm of the gradients and the factor that brings it to max_norm, without touching them: the
/// optimizer step multiplies on the way, so clipping costs one read. Parameters without a gradient count as
/// 0. Sums have a fixed order: bits do not depend on threads. max_norm > 0, else InvalidConfig.
ClippedNorm clip_by_global_norm(std::span<Parameter* const> parameters, double max_norm);

/// The global norm of the gradients: one f32, on the device.
Tensor global_norm(std::span<Parameter* const> parameters);
/// The same as a number (waits for the device).
double grad_norm(std::span<Parameter* const> parameters);

/// Scales the gradients in place so that their global norm is at most max_norm; returns the norm before.
/// As PyTorch's clip_grad_norm_: a norm that is not finite makes every gradient 0 or NaN, so look at it
/// before the step.
double clip_grad_norm(std::span<Parameter* const> parameters, double max_norm);

/// Limits every element of the gradients to [-limit, limit].
void clip_grad_value(std::span<Parameter* const> parameters, double limit);

}  // namespace ingot
