#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ingot/base/report.h"
#include "ingot/train/history.h"
#include "ingot/train/run_metadata.h"

namespace ingot {

/// What a run left in its output directory.
struct FinishedRun {
  std::string directory, name;  ///< the name tells it from the others: the end of its path
  RunHistory history;
  std::vector<std::pair<std::string, std::string>> config;  ///< dotted keys of config.yaml and their values
  std::optional<RunMetadata> metadata;                      ///< run.json; nothing where there is none

  /// The validation loss at the end, and the least; of averaged weights where there are any. Nothing without
  /// validation.
  std::optional<double> last_validation() const;
  std::optional<double> best_validation() const;
};

/// Reads runs from their directories (metrics.jsonl, and config.yaml where it is there). IoError for one that
/// holds no metrics.
std::vector<FinishedRun> read_runs(const std::vector<std::string>& directories);

/// The same for a directory that may hold less: a checkpoint, whose metrics are those of its run up to its
/// step. IoError where it holds nothing of a run.
FinishedRun read_any_run(const std::string& directory);
/// Gives each run the shortest end of its path that tells it from the others.
void name_runs(std::vector<FinishedRun>& runs);

/// One row for each setting in which the runs differ, one column for each run: "–" where it is not set. Left
/// out: where runs write to, and defaults that another run has no key for.
ReportTable differing_settings(const std::vector<FinishedRun>& runs);

/// A page with the runs' curves over each other, their results, and in what their settings differ.
Report compare_runs(const std::vector<FinishedRun>& runs);

}  // namespace ingot
