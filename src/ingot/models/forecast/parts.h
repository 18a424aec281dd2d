#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

// Small things that several forecasting networks are made of.

/// Dropout while training, else x itself.
Tensor drop(const Tensor& x, double p, bool training);

struct AttentionResult {
  Tensor out;     ///< [B, tokens, heads, d]
  Tensor scores;  ///< [B, heads, tokens, tokens]; undefined where the fused kernel ran
};

/// softmax(q·kᵀ / sqrt(d) + previous)·v without a mask, over [B, tokens, heads, d]. `previous` are scores of
/// an earlier layer, or undefined (He et al. 2020, "RealFormer"); with `keep_scores` or dropout the scores
/// are made, otherwise the fused kernel runs.
AttentionResult attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& previous,
                       bool keep_scores, double p, bool training);

}  // namespace ingot
