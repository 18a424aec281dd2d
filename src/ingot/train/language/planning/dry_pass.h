#pragma once

#include <cstddef>

#include "ingot/kernels/dry_run.h"
#include "ingot/train/language/config.h"

namespace ingot {

/// Bytes of a pass forward and backward that are there besides parameters and their gradients.
struct PassMemory {
  std::size_t kept = 0;       ///< between forward and backward
  std::size_t transient = 0;  ///< at the peak, besides
  std::size_t rollout = 0;    ///< while GRPO's answers are written, when no pass is there
};

/// Of the model with config's adapters, recipe, recomputation and chunks, for a micro-batch of its objective
/// whose rows have config.sequence_len tokens (DryObjective). Runs it on the meta device; numbers of a shape
/// that was asked for before are remembered. Matrices of a quantized base count as dense.
PassMemory dry_pass(const TrainConfig& config, const LanguageConfig& model,
                    const kernels::DeviceProfile& device);

}  // namespace ingot
