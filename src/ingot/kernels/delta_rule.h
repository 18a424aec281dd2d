#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

// The gated delta rule (Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464, 3.1): each head h of each
// sequence has a state S of P × N that answers a key with a value, and each step corrects its answer.
//   S' = exp(decay[b, t, h]) · S[t − 1]
//   S[t] = S' + beta[b, t, h] · (x[b, t, h, :] − S' · keys[b, t, g, :]) · keys[b, t, g, :]ᵀ
//   y[b, t, h, :] = S[t] · queries[b, t, g, :]
// x (the values) and y: [B, T, H, P]; decay and beta: [B, T, H]; keys and queries: [B, T, G, N], a group g
// for H / G neighbouring heads; starts: i32 [B, T], the first step of each step's document, before which S is
// zero, or absent. Contiguous; all but starts f32, on the CPU's reference also f64.

/// state: [B, H, P, N], S before the first step, and overwritten by S after the last.
struct DeltaRuleArgs {
  View x, decay, beta, keys, queries, starts, state, y;
};
inline Kernel<DeltaRuleArgs> delta_rule("delta_rule");
inline double flops(const DeltaRuleArgs& args) {
  return 7 * static_cast<double>(args.x.numel()) * static_cast<double>(args.keys.dim(3));
}

/// Gradients of delta_rule that began with zeros. They need the states once more: states [B, H, C, P, N] are
/// for those before each C-th part of the steps, history [B, H, P, T / C rounded up, N] for those of one
/// part, gradient [B, H, P, N] for that of a state (an implementation that takes chunks of steps needs less
/// of them). dx, ddecay and dbeta may be absent. dkeys and dqueries are of each head, [B, T, H, N], and
/// overwritten.
struct DeltaRuleBackwardArgs {
  View x, decay, beta, keys, queries, starts, dy, states, history, gradient, dx, ddecay, dbeta, dkeys,
      dqueries;
  bool accumulate_dx = false, accumulate_ddecay = false, accumulate_dbeta = false;
};
inline Kernel<DeltaRuleBackwardArgs> delta_rule_backward("delta_rule_backward");
inline double flops(const DeltaRuleBackwardArgs& args) {
  return 30 * static_cast<double>(args.x.numel()) * static_cast<double>(args.keys.dim(3));
}

}  // namespace ingot::kernels
