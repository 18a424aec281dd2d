#pragma once

#include <vector>

#include "ingot/models/language/decoder.h"
#include "ingot/train/language/config.h"

namespace ingot {

/// Throws InvalidConfig where so many processes cannot share the model's experts out as the run is asked to.
void check_expert_ranks(const TrainConfig& config, const LanguageConfig& model, int processes);

/// What trains of the experts of a model.
std::vector<Parameter*> expert_parameters(LanguageModel& model);

}  // namespace ingot
