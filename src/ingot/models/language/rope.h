#pragma once

#include <vector>

#include "ingot/models/language/config.h"

namespace ingot {

/// Angular frequency of each rotated pair, [head_dim / 2], after the model's scaling of positions
/// (`rope_scaling`; the formulas of transformers' modeling_rope_utils).
std::vector<float> scaled_rope_frequencies(const LanguageConfig& config);

}  // namespace ingot
