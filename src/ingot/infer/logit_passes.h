#pragma once

#include <cstddef>
#include <span>

#include "ingot/base/parallel.h"

// What a draw does with all logits of a vocabulary, where every nanosecond comes a hundred thousand times.
namespace ingot {

/// The largest; NaN where one is NaN, −∞ of none.
float largest_logit(std::span<const float> logits);

/// Divides all by `divisor`.
void divide_logits(std::span<float> logits, float divisor);

/// e^d for d ≤ 0 to seven digits, 0 below −87. By additions and products alone, so that it has the same bits
/// on every processor of an architecture, and takes a tenth of the time that std::exp does.
float exp_weight(float d);

/// Σ exp_weight(x − top) over all logits x, none of which is above `top`; −∞ counts 0.
double sum_exp_weights(std::span<const float> logits, float top);

/// Calls f for each index whose logit is in [lowest, below), in their order.
void for_each_between(std::span<const float> logits, float lowest, float below,
                      FunctionRef<void(std::size_t)> f);

}  // namespace ingot
