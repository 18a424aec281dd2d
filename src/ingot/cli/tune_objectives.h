#pragma once

#include <memory>

#include "ingot/tune/objective.h"

namespace ingot::cli {

/// The objective that a study names: training runs, forecasts, or commands.
std::unique_ptr<tune::Objective> make_objective(const tune::StudyConfig& config);

}  // namespace ingot::cli
