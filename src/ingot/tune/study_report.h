#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ingot/tune/study_config.h"
#include "ingot/tune/tuner.h"

namespace ingot::tune {

/// Writes a study as one HTML file: values and the best so far over the trials, what each parameter explains,
/// the value over each parameter, all parameters together and two at a time, the trials' curves, every trial
/// in a table, the best trial's values, why trials failed or diverged. `commands`: what to do next, and how,
/// for the user's shell. `environment`: what it ran with and on. Throws IoError.
void write_study_report(const std::string& path, const StudyConfig& config, Tuner& tuner,
                        const std::vector<std::pair<std::string, std::string>>& commands = {},
                        const std::vector<std::pair<std::string, std::string>>& environment = {});

}  // namespace ingot::tune
