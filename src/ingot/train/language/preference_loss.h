#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/train/language/objective_config.h"

namespace ingot {

/// What a model thinks of the answers of some pairs: log-probabilities of whole answers, f32 [pairs].
struct PairLogProbs {
  Tensor chosen, rejected;
  Tensor reference_chosen, reference_rejected;  ///< undefined: the objective has no reference
  Tensor chosen_length, rejected_length;        ///< tokens
  Tensor nll;  ///< scalar: the mean loss of a token of the chosen; undefined: the objective has no use for it
};

/// What a model thinks of single answers, and of answers to other prompts, f32 [answers] each.
struct VerdictLogProbs {
  Tensor answers, reference;
  Tensor mismatched, reference_mismatched;
  Tensor desirable;  ///< 1, or 0
};

/// A loss, a scalar that gradients flow from, and scalars that are reported, under trl's names.
struct PreferenceLoss {
  Tensor loss;
  std::vector<std::pair<std::string, Tensor>> metrics;
};

/// DPO, IPO, ORPO and SimPO, as trl computes them: the mean over the pairs.
PreferenceLoss pair_loss(const ObjectiveConfig& objective, const PairLogProbs& pairs);

/// KTO, as trl computes it: the mean over the answers. Metrics of the desirable
/// ("chosen") and of the others ("rejected") are sums, beside their counts.
PreferenceLoss verdict_loss(const ObjectiveConfig& objective, const VerdictLogProbs& answers);

}  // namespace ingot
