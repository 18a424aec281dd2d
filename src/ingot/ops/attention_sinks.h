#pragma once

#include "ingot/core/tensor.h"

// Attention sinks (gpt-oss) change what kernels without them compute by factors alone: with a logit s that
// stands for no value, the weights of the others shrink by σ(lse − s), and log Σ exp becomes
// log(exp(lse) + exp(s)). The gradients of queries, keys and values follow from these two as they do without.
namespace ingot {

/// Lets the sinks [Hq] into the softmax that made out [B, S, Hq, Dv] and lse [B, Hq, S]: both become new
/// tensors. No gradient.
void let_sinks_in(const Tensor& sinks, Tensor& out, Tensor& lse);

/// The first of these alone: out [..., Hq, Dv] for lse [..., Hq].
Tensor shrunk_by_sinks(const Tensor& sinks, const Tensor& out, const Tensor& lse);

/// The gradient of the sinks [Hq], of what let_sinks_in() left: −Σ exp(s − lse) · (dout · out).
Tensor gradient_of_sinks(const Tensor& sinks, const Tensor& out, const Tensor& lse, const Tensor& dout);

}  // namespace ingot
