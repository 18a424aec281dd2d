#pragma once

#include <span>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

/// Matmul over the last two axes, with the batching of NumPy and PyTorch: a [..., m, k] times b [...,
/// k, n] gives [..., m, n] with leading axes broadcast; a vector stands for one row (a) or one column (b),
/// and its axis is dropped from the result. Transposed operands are read in place. Throws ShapeMismatch.
Tensor matmul(const Tensor& a, const Tensor& b);

/// x·weightᵀ + bias. x: [..., in]; weight: [out, in]; bias: [out] or undefined. Returns [..., out]; gradients
/// of weight and bias are added straight into what is there. One dtype; without gradients, an f32 x also
/// takes a weight in bf16 or f16, which is widened as it is read. Throws ShapeMismatch.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// The weight [out, in] and the bias, [out] or undefined, of a linear layer.
struct LinearWeights {
  Tensor weight, bias;
};

/// The same of several layers for one input; where nothing is recorded and a GPU has few rows, in one launch
/// for up to four of them, whose sums may then come in another order than alone.
std::vector<Tensor> linear(const Tensor& x, std::span<const LinearWeights> layers);

/// What several layers make of one input, concatenated in one tensor: [..., in] -> [..., sum of their outs].
/// All have a bias, or none. One matmul, and one for each gradient, where their weights (and biases) lie one
/// behind another in memory (nn's ProjectionGroup); else one for each layer. Throws ShapeMismatch.
Tensor fused_linear(const Tensor& x, std::span<const LinearWeights> layers);

/// silu(gate(x)) · up(x), the gated half of a feed-forward block (SwiGLU, Shazeer 2020): [..., in] -> [...,
/// out], which gate and up have in common. The bits are those of silu_mul behind linear of both layers; where
/// nothing is recorded and a GPU has few rows, it is one launch. Throws ShapeMismatch.
Tensor swiglu(const Tensor& x, const LinearWeights& gate, const LinearWeights& up);

/// down(gelu_tanh(up(x))), the feed-forward block of GPT-2: [..., in] -> [..., up's out] -> [..., down's
/// out]. gelu, and its gradient, are computed by the kernels of the matmuls before them where the device has
/// such. Throws ShapeMismatch.
Tensor gelu_mlp(const Tensor& x, const LinearWeights& up, const LinearWeights& down);

/// down(silu(gate)·up), the second half of a feed-forward block with SwiGLU (Shazeer 2020). gate_up: [...,
/// 2·in], gate in the first `in` columns and up in the others; returns [..., down's out]. The matmul of the
/// two is kept for the backward pass; inside SelectiveRecompute it is made again while gate_up's gradient is.
/// Throws ShapeMismatch.
Tensor swiglu_linear(const Tensor& gate_up, const LinearWeights& down);

}  // namespace ingot
