#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

// Mamba 2's recurrence (Dao and Gu 2024, arXiv:2405.21060, 2.1), with the time step multiplied into x and
// decay. Each head h of each sequence has a state S of P × N:
//   S[t] = exp(decay[b, t, h]) · S[t − 1] + x[b, t, h, :] · keys[b, t, g, :]ᵀ
//   y[b, t, h, :] = S[t] · queries[b, t, g, :]
// x and y: [B, T, H, P]; decay: [B, T, H]; keys and queries (the paper's B and C): [B, T, G, N], a group g
// for H / G neighbouring heads; starts: i32 [B, T], the first step of each step's document, before which S is
// zero, or absent. Contiguous; all but starts f32, on the CPU's reference also f64.

/// state: [B, H, P, N], S before the first step, and overwritten by S after the last.
struct SelectiveScanArgs {
  View x, decay, keys, queries, starts, state, y;
};
inline Kernel<SelectiveScanArgs> selective_scan("selective_scan");
inline double flops(const SelectiveScanArgs& args) {
  return 5 * static_cast<double>(args.x.numel()) * static_cast<double>(args.keys.dim(3));
}

/// Gradients of selective_scan that began with zeros. y: what it gave. scratch: [B, H, P, N]. dx and ddecay
/// may be absent. dkeys and dqueries are of each head, [B, T, H, N], and overwritten.
struct SelectiveScanBackwardArgs {
  View x, decay, keys, queries, starts, y, dy, scratch, dx, ddecay, dkeys, dqueries;
  bool accumulate_dx = false, accumulate_ddecay = false;
};
inline Kernel<SelectiveScanBackwardArgs> selective_scan_backward("selective_scan_backward");
inline double flops(const SelectiveScanBackwardArgs& args) {
  return 12 * static_cast<double>(args.x.numel()) * static_cast<double>(args.keys.dim(3));
}

}  // namespace ingot::kernels
