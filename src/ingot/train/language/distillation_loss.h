#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// How far the model is from its teacher at each token, f32 [n], in nats. Logits: f32 [n, classes]; gradients
/// flow from the model's. Both are divided by `temperature` first; the result is not multiplied by its
/// square. `beta` as in DistillationConfig.
Tensor distillation_divergence(const Tensor& logits, const Tensor& teacher_logits, double beta,
                               double temperature);

/// The same with beta 0, where only the teacher's most probable tokens are known: `indices` i32 or i64 [n,
/// k], each below the classes, and their log-probabilities f32 [n, k] at temperature 1. They are brought to
/// `temperature` and to a sum of 1.
Tensor top_k_divergence(const Tensor& logits, const Tensor& indices, const Tensor& log_probs,
                        double temperature);

}  // namespace ingot
