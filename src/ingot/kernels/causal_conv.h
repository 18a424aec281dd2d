#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

// Depthwise causal convolution along the middle axis, as Mamba's and LFM2's layers have it: each channel has
// K taps of its own, the last of which meets the step itself. x and y: [B, T, C]; weight: [C, K]; bias: [C];
// starts: i32 [B, T], the first step of the document that each step belongs to (steps before it count as
// zeros), or absent: 0, as what is below 0. Contiguous; all but starts of one floating dtype.

/// y[b, t, c] = bias[c] + Σ_k weight[c, k] · x[b, t − K + 1 + k, c]. past: [B, K − 1, C], what stands before
/// x; absent: zeros. bias may be absent.
struct CausalConvArgs {
  View x, weight, bias, past, starts, y;
};
inline Kernel<CausalConvArgs> causal_conv("causal_conv");
inline double flops(const CausalConvArgs& args) {
  return 2 * static_cast<double>(args.y.numel()) * static_cast<double>(args.weight.dim(1));
}

/// Gradients of causal_conv without past; each of dx, dweight and dbias may be absent. scratch: f32 [parts, K
/// + 1, C] for any number of parts, which sum some rows each; only devices that sum in parts read it.
struct CausalConvBackwardArgs {
  View x, weight, starts, dy, dx, dweight, dbias, scratch;
  bool accumulate_dx = false, accumulate_dweight = false, accumulate_dbias = false;
};
inline Kernel<CausalConvBackwardArgs> causal_conv_backward("causal_conv_backward");
inline double flops(const CausalConvBackwardArgs& args) {
  const double one = 2 * static_cast<double>(args.dy.numel()) * static_cast<double>(args.weight.dim(1));
  return (args.dx ? one : 0) + (args.dweight ? one : 0);
}

}  // namespace ingot::kernels
