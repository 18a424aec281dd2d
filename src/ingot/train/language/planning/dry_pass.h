#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ingot/kernels/dry_run.h"
#include "ingot/train/language/config.h"
#include "ingot/train/language/planning/pass_trace.h"

namespace ingot {

/// What a pass forward and backward takes besides parameters.
struct PassMemory {
  std::size_t kept = 0;                    ///< between forward and backward
  std::vector<PlannedGradient> gradients;  ///< of what trains, in the order of parameters()
  std::vector<PassMoment> first;           ///< of a pass that makes the gradients
  std::vector<PassMoment> adding;          ///< of one that adds to them, where they lie before it
  std::size_t rollout = 0;                 ///< while GRPO's answers are written, when no pass is there
};

/// Of the model with config's adapters, recipe, recomputation and chunks, for a micro-batch of its objective
/// whose rows have config.sequence_len tokens (DryObjective). Runs it on the meta device; numbers of a shape
/// that was asked for before are remembered. Matrices of a quantized base count as dense.
std::shared_ptr<const PassMemory> dry_pass(const TrainConfig& config, const LanguageConfig& model,
                                           const kernels::DeviceProfile& device);

}  // namespace ingot
