#pragma once

#include <cstdint>
#include <span>

#include "ingot/base/rng.h"
#include "ingot/core/tensor.h"

namespace ingot {

/// log softmax over the legal actions: logits, legal (f32, 1 or 0): [batch, actions]; f32 (f64 for f64). What
/// the logits of illegal actions are changes nothing: they get about -1e30, probability 0 and gradient 0.
Tensor masked_log_softmax(const Tensor& logits, const Tensor& legal);

/// An action by its probability exp(log_probability) for a uniform number in [0, 1); always one of the legal
/// ones. Throws NonFinite where a legal log-probability is not a number or all are minus infinity, Error
/// where nothing is legal.
std::int32_t sample_action(std::span<const float> log_probabilities, std::span<const float> legal,
                           double uniform);

/// The most probable legal action, the first of equals. Throws as sample_action does.
std::int32_t best_action(std::span<const float> log_probabilities, std::span<const float> legal);

}  // namespace ingot
