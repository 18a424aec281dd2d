#pragma once

#include "ingot/nn/parameter.h"

namespace ingot {

// Small parts that several forecasting networks are made of.

/// The weight [out, in, 1] of a convolution over single steps as the matrix of the linear layer that it is.
Tensor kernel_matrix(const Parameter& weight);

/// Dropout while training, else x itself.
Tensor drop(const Tensor& x, double p, bool training);

/// Residual attention (He et al. 2020, "RealFormer"): the scores of a layer are the sum of its own and of all
/// before it. Such a sum of matmuls is one matmul of all layers' queries and keys concatenated, which is
/// what is kept here: [B, tokens, heads, d · layers so far]. Scores themselves never exist.
struct ResidualScores {
  Tensor queries, keys;
};

/// softmax(q·kᵀ / sqrt(d))·v without a mask, over [B, tokens, heads, d]; with `residual`, the scores of the
/// layers before are added and this layer is appended.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, ResidualScores* residual, double p,
              bool training);

}  // namespace ingot
