#pragma once

#include <vector>

#include "ingot/models/language/decoder.h"

namespace ingot {

/// By layer, the matrices that do not train, dense or quantized, but those of adapters: what ranks share out
/// (train/frozen_shards.h); without experts, where each rank has its own. Quantized ones get memory of their
/// own where others share it.
std::vector<std::vector<Tensor*>> frozen_matrices(LanguageModel& model);

}  // namespace ingot
