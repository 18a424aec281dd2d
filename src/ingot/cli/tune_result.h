#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ingot/tune/study_config.h"
#include "ingot/tune/tuner.h"

namespace ingot::cli {

/// What to do with the best trial: purposes, and commands for the user's shell. None while no trial is
/// complete.
std::vector<std::pair<std::string, std::string>> tune_commands(const tune::StudyConfig& config,
                                                               tune::Tuner& tuner);

/// What a study found, for people: the best trial, why trials failed, where the report is, and the command
/// that fits the best; or, instead, `go_on`, the command that goes on where the study was interrupted.
void print_tune_result(const tune::StudyConfig& config, tune::Tuner& tuner, const std::string& report,
                       const std::string& go_on);

/// The same for programs, as one JSON object.
void print_tune_json(const tune::StudyConfig& config, tune::Tuner& tuner, const std::string& report);

}  // namespace ingot::cli
