#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

struct DeltaRuleInput {
  Tensor x;              ///< values [B, T, H, P]
  Tensor decay;          ///< [B, T, H], logarithms of what the state is multiplied by
  Tensor beta;           ///< [B, T, H]: the part of its error that is corrected
  Tensor keys, queries;  ///< [B, T, G, N]; group h·G / H is head h's
  Tensor starts{};       ///< i32 [B, T]: the first step of each step's document; undefined: one for each row
};

/// The gated delta rule (Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464, 3.1): a state of P × N for each
/// head answers keys with values, and each step corrects its answer. With S' = exp(decay[t])·S[t−1],
/// S[t] = S' + beta[t]·(x[t] − S'·keys[t])·keys[t]ᵀ gives y[t] = S[t]·queries[t], [B, T, H, P]. Computed in
/// f32 (of f64 in f64) whatever the dtype. `state`: f32 [B, H, P, N], S before the first step, which becomes
/// S after the last; undefined: zeros. Throws DimensionMismatch or ShapeMismatch naming what does not fit,
/// and Error where a gradient would have to flow through a state.
Tensor delta_rule(const DeltaRuleInput& input, const Tensor& state = {});

}  // namespace ingot
