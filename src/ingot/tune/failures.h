#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/tune/study_config.h"
#include "ingot/tune/trial.h"

namespace ingot::tune {

/// Trials that came to no value for one and the same reason.
struct Failure {
  TrialState state = TrialState::failed;  ///< failed, or pruned: they diverged
  std::string reason;
  std::vector<std::int64_t> trials;  ///< their numbers, ascending
  std::string log;                   ///< the first one's; empty where it wrote nothing

  /// "2 failed: the command ended with exit code 7 (trial 3: s-trials/trial-0003.log)", on one line.
  std::string summary() const;
};

/// Why trials failed or diverged, the commonest reason first. Those that a pruner ended are not among them.
std::vector<Failure> failures_of(const std::vector<Trial>& trials, const StudyConfig& config);

/// What of the machine, rather than of a trial's values, made a trial fail: a file that is not there, a full
/// disk, a command that cannot be run. In the system's words, which are the same for every trial; empty for
/// other reasons.
std::string environment_cause(const std::string& note);

/// The last trials to end, where as many as these failed in a row for one cause of the environment; else
/// empty.
std::vector<Trial> failed_by_environment(const std::vector<Trial>& trials, std::size_t in_a_row);

/// The path of what a trial wrote to its log; empty where it wrote nothing.
std::string written_log(const StudyConfig& config, std::int64_t trial);

}  // namespace ingot::tune
