#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// Sums of one series at several delays, around a circle (time-delay aggregation, Wu et al. 2021):
/// y[b, t] = Σ_i weights[b, i] · x[b, (t + delays[b, i]) mod L]. x: [B, L, D]; delays: i64 [B, K], in [0, L);
/// weights: [B, K]. Throws ShapeMismatch, and DimensionMismatch for a delay out of range.
Tensor weighted_roll(const Tensor& x, const Tensor& delays, const Tensor& weights);
/// The same where every delay is known to be in range: their values are not checked, so nobody waits for a
/// device.
Tensor weighted_roll_within(const Tensor& x, const Tensor& delays, const Tensor& weights);

/// x moved on by `shift` positions along an axis, what leaves at the end returning at the front: y[t] = x[t −
/// shift].
Tensor roll(const Tensor& x, std::int64_t shift, int axis = -1);

}  // namespace ingot
