#pragma once

#include "ingot/models/language/config.h"
#include "ingot/models/weight_map.h"

namespace ingot {

/// What the checkpoints of this model's family call its parameters.
WeightMap language_weight_map(const LanguageConfig& config);

}  // namespace ingot
