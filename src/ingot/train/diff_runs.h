#pragma once

#include <string>
#include <vector>

#include "ingot/train/compare_runs.h"

namespace ingot {

/// One difference of two runs; "–" where a run does not have it.
struct RunDifference {
  std::string what, left, right;
};

/// What differs between two runs.
struct RunDiff {
  std::vector<RunDifference> machine;        ///< build, machine, seeds, command, time
  std::vector<RunDifference> configuration;  ///< settings, but where the runs write to
  std::vector<RunDifference> data;           ///< fingerprints
  std::vector<RunDifference> metrics;        ///< at the end; also those that are equal

  /// Whether configuration and data are the same: the metrics then tell machines and chance apart.
  bool same_experiment() const { return configuration.empty() && data.empty(); }
};

RunDiff diff_runs(const FinishedRun& left, const FinishedRun& right);

}  // namespace ingot
