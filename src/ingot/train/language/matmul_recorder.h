#pragma once

#include <cstdint>
#include <vector>

#include "ingot/core/device.h"
#include "ingot/models/language/config.h"
#include "ingot/train/language/step_matmuls.h"

namespace ingot {

/// The matmuls with weights of a step on one batch of `tokens` behind another, each with a count of 1, in the
/// order in which `device` would run them: found by a dry run.
std::vector<StepMatmul> matmuls_of_step(const LanguageConfig& config, std::int64_t tokens, Device device);

}  // namespace ingot
