#pragma once

#include <string>

#include "ingot/tune/tuner.h"

namespace ingot::tune {

/// Writes a study as one HTML file: values and the best so far over the trials, what each parameter explains,
/// the value over each parameter, the trials' curves, the best trial's values.
void write_study_report(const std::string& path, const std::string& title, Tuner& tuner);

}  // namespace ingot::tune
