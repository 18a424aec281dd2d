#pragma once

#include <string>

namespace ingot {

class ConfigReader;
struct TrainConfig;

/// Learning from another model's probabilities beside the data's tokens (Hinton et al. 2015), under axolotl's
/// names: kd_alpha · T² · divergence + kd_ce_alpha · cross-entropy, each a mean over the targets.
struct DistillationConfig {
  std::string teacher;   ///< a model that runs beside the one that trains
  std::string logprobs;  ///< or a directory of what it said (capture_logprobs())
  double alpha = 1, ce_alpha = 0;
  double temperature = 1;  ///< T: both models' logits are divided by it
  /// 0: KL(teacher ‖ model); 1: KL(model ‖ teacher); between: the generalized Jensen-Shannon divergence
  /// (Agarwal et al. 2024), as trl's GKD has it.
  double beta = 0;

  bool enabled() const { return !teacher.empty() || !logprobs.empty(); }
};

/// Refuses keys of distillation that are not heeded: where nothing is distilled from, and axolotl's others.
void check_distillation_keys(const ConfigReader& root, const DistillationConfig& config);
/// Throws InvalidConfig that names the key.
void validate_distillation(const TrainConfig& config);

}  // namespace ingot
