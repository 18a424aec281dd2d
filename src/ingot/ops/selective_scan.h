#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

struct SelectiveScanInput {
  Tensor x;              ///< [B, T, H, P], each step's input times its time step
  Tensor decay;          ///< [B, T, H], logarithms of what the state is multiplied by: time step · A
  Tensor keys, queries;  ///< [B, T, G, N], the paper's B and C; group h·G / H is head h's
  Tensor starts{};       ///< i32 [B, T]: the first step of each step's document; undefined: one for each row
};

/// Mamba 2's recurrence (Dao and Gu 2024, arXiv:2405.21060, 2.1): with a state of P × N for each head,
/// S[t] = exp(decay[t])·S[t−1] + x[t]·keys[t]ᵀ gives y[t] = S[t]·queries[t], [B, T, H, P]. Computed in f32
/// (of f64 in f64) whatever the dtype. `state`: f32 [B, H, P, N], S before the first step, which becomes S
/// after the last; undefined: zeros. Throws DimensionMismatch or ShapeMismatch naming what does not fit, and
/// Error where a gradient would have to flow through a state.
Tensor selective_scan(const SelectiveScanInput& input, const Tensor& state = {});

}  // namespace ingot
