#pragma once

#include <string>

#include "ingot/tune/study_config.h"
#include "ingot/tune/tuner.h"

namespace ingot::tune {

/// Writes a study as one HTML file: values and the best so far over the trials, what each parameter explains,
/// the value over each parameter, the trials' curves, the best trial's values, why trials failed or diverged.
/// Throws IoError.
void write_study_report(const std::string& path, const StudyConfig& config, Tuner& tuner);

}  // namespace ingot::tune
