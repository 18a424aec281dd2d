#pragma once

#include "ingot/models/language/config.h"
#include "ingot/nn/init.h"

namespace ingot {

Init decoder_weight_init(const LanguageConfig& config);
/// GPT-2's rule for layers that add into the residual stream: its variance then does not grow with depth.
Init decoder_residual_init(const LanguageConfig& config);

}  // namespace ingot
