#pragma once

#include <string>

#include "ingot/dist/agreement.h"
#include "ingot/train/language/config.h"

namespace ingot {

/// What a run may not change when it goes on, as a JSON object by the keys of its configuration: all but
/// steps, learning rate, evaluation, logging, batch size, device and whatever gives the same bits.
std::string run_settings(const TrainConfig& config);
/// What its ranks must have alike: that, and what decides which bits they have and when they wait for each
/// other.
dist::Settings rank_settings(const TrainConfig& config);

}  // namespace ingot
