#pragma once

#include <memory>
#include <string>

#include "ingot/tune/objective.h"

namespace ingot::cli {

/// The objective that a study names: training runs, forecasts, or commands.
std::unique_ptr<tune::Objective> make_objective(const tune::StudyConfig& config);

/// What fits the best model that a study of `forecast` found: an `ingot forecast fit` for the user's shell.
std::string forecast_command(const tune::StudyConfig& config, const tune::Values& best);

/// What trains a trial of `train` again, with the settings that it has in its directory and no others.
std::string training_command(const std::string& directory);
/// The same, three times as long.
std::string longer_training_command(const std::string& directory);

}  // namespace ingot::cli
