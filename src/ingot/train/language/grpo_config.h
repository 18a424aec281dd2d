#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/train/language/rewards/reward.h"

namespace ingot {

class ConfigReader;

/// What the loss of a step divides by.
enum class GrpoLossType : std::uint8_t {
  grpo,     ///< the mean over answers of the mean over their tokens (Shao et al. 2024)
  bnpo,     ///< the mean over the tokens of a micro-batch
  dr_grpo,  ///< the sum over tokens by max_completion_length (Liu et al. 2025)
  dapo,     ///< the mean over the tokens of the step (Yu et al. 2025)
};
enum class RewardScale : std::uint8_t { group, batch, none };

/// Group relative policy optimization: `trl` and `rewards` of a configuration, under axolotl's names.
struct GrpoConfig {
  std::int64_t num_generations = 8;  ///< answers to a prompt
  std::int64_t max_completion_length = 256;
  std::int64_t num_iterations = 1;  ///< optimizer steps that learn from the same answers
  double temperature = 1, top_p = 1, min_p = 0, repetition_penalty = 1;
  std::int64_t top_k = 0;
  double beta = 0;  ///< weight of the divergence from the reference
  double epsilon = 0.2, epsilon_high = 0.2;
  GrpoLossType loss_type = GrpoLossType::dapo;
  RewardScale scale_rewards = RewardScale::group;
  bool normalize_then_sum = false;  ///< each reward by itself within a group (GDPO)
  bool mask_truncated_completions = false;
  std::vector<RewardConfig> rewards;

  std::vector<double> weights() const;
};

/// Reads `trl` and `rewards`.
GrpoConfig read_grpo(const ConfigReader& root, bool normalize_then_sum);

}  // namespace ingot
