#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/tune/tuner.h"

namespace ingot {
class Config;
}

namespace ingot::tune {

/// Everything that `ingot tune` reads; docs/tuning.md lists the keys.
struct StudyConfig {
  std::string name;       ///< the YAML file's, without its extension
  std::string directory;  ///< the YAML file's, as an absolute path: what is tried runs there
  TunerOptions tuner;
  std::int64_t workers = 1;
  std::string output_dir;     ///< one directory and log per trial, workers' logs, report.html
  std::string keep = "best";  ///< whose directories stay: "best", "all" or "none"

  std::string kind;              ///< what is tried: "train", "forecast" or "command"
  std::string objective;         ///< the configuration's absolute path, or the command
  std::vector<std::string> set;  ///< changes to that configuration that all trials share
  std::string set_where;         ///< they were written, for messages
  std::string metric;            ///< empty: the objective's own
  double timeout_seconds = 0;    ///< of a command; 0: none

  std::string trial_directory(std::int64_t number) const;
  /// Beside the directory, which belongs to what is tried: a command's stderr.
  std::string trial_log(std::int64_t number) const;
};

/// `path` is the YAML file's: its directory is where relative paths start, its name names the study.
StudyConfig read_study_config(Config& config, const std::string& path);

}  // namespace ingot::tune
