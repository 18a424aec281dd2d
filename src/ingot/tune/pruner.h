#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/tune/trial.h"

namespace ingot::tune {

struct PrunerOptions {
  std::string type = "none";  ///< "none", "median" or "asha"
  // median
  std::int64_t startup_trials = 5;  ///< nothing is pruned before so many are complete
  std::int64_t warmup_steps = 0;    ///< nor up to this step of a trial
  // asha
  std::int64_t min_resource = 0;      ///< step of the first rung; 0: the first step that any trial reported
  std::int64_t reduction_factor = 4;  ///< of the trials on a rung, one in so many goes on

  /// Throws InvalidConfig naming "pruner.<key>".
  void validate() const;
};

/// Whether the trial, which has just reported, should end. `trials` is the whole history; the trial itself
/// may be in it. A report of NaN always ends the trial (unless the type is "none").
///
/// median: its best value so far is worse than the median of the complete trials at the same step (Golovin et
/// al. 2017, "Google Vizier", section 3.2.1; as Optuna does it).
/// asha: asynchronous successive halving (Li et al. 2018): at steps r, r·η, r·η², ... it has to be among the
/// best 1/η of the trials that came as far, running ones included.
bool should_prune(const PrunerOptions& options, Direction direction, const Trial& trial,
                  const std::vector<Trial>& trials);

}  // namespace ingot::tune
