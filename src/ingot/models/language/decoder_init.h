#pragma once

#include <cstdint>

#include "ingot/models/language/config.h"
#include "ingot/nn/init.h"
#include "ingot/nn/linear.h"

namespace ingot {

Init decoder_weight_init(const LanguageConfig& config);
/// GPT-2's rule for layers that add into the residual stream: its variance then does not grow with depth.
Init decoder_residual_init(const LanguageConfig& config);
/// A layer whose bias starts at zero.
LinearOptions decoder_linear(std::int64_t in, std::int64_t out, bool bias, Init weight);

}  // namespace ingot
