#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/train/language/grpo_config.h"

namespace ingot {

/// How much better each answer is than the others to its prompt, as trl computes it. `rewards`: of each
/// reward, the scores of all answers, groups of num_generations one after another.
struct GroupAdvantages {
  std::vector<double> rewards;     ///< of each answer, all rewards together
  std::vector<double> advantages;  ///< of each answer
  double std_of_rewards = 0;
  double groups_alike = 0;  ///< the share of answers in groups whose rewards are all the same
};
GroupAdvantages group_advantages(const GrpoConfig& config, std::span<const std::vector<double>> rewards);

/// A micro-batch of answers: f32 [answers, longest].
struct GrpoBatch {
  Tensor log_probs;                ///< of the model; gradients flow from it
  Tensor old_log_probs;            ///< of the model that wrote them; undefined: the same model
  Tensor reference;                ///< undefined where beta is 0
  Tensor mask;                     ///< 1 where a token counts
  Tensor advantages;               ///< [answers, 1]
  std::int64_t micro_batches = 1;  ///< in the step
  double step_tokens = 0;          ///< that count in the step: dapo
};

struct GrpoLoss {
  Tensor loss;     ///< the micro-batch's part of the step's loss
  Tensor kl;       ///< the mean divergence of a token; undefined where there is no reference
  Tensor clipped;  ///< the share of tokens whose ratio was clipped
};
/// The clipped surrogate with the k3 estimate of the divergence, as trl computes it.
GrpoLoss grpo_loss(const GrpoConfig& config, const GrpoBatch& batch);

}  // namespace ingot
