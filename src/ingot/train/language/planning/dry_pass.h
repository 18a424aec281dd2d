#pragma once

#include <cstddef>
#include <cstdint>

#include "ingot/kernels/dry_run.h"
#include "ingot/train/language/config.h"

namespace ingot {

/// Bytes of a pass forward and backward that are there besides parameters and their gradients.
struct PassMemory {
  std::size_t kept = 0;       ///< between forward and backward
  std::size_t transient = 0;  ///< at the peak, besides
};

/// Of the model with config's adapters, recipe, recomputation and chunks, for so many sequences of
/// config.sequence_len. Runs it on the meta device; numbers of a shape that was asked for before are
/// remembered. Matrices of a quantized base count as dense.
PassMemory dry_pass(const TrainConfig& config, const LanguageConfig& model, std::int64_t sequences,
                    const kernels::DeviceProfile& device);

}  // namespace ingot
