#pragma once

#include <vector>

#include "ingot/tune/trial.h"

namespace ingot::tune {

/// What share of the objective's variance over the space each parameter explains alone; what they leave of 1
/// is due to several together. Functional ANOVA (Hutter et al. 2014) over a forest of 64 regression trees
/// that is fitted to the complete trials. Trials that blew up (10000 times as far from the median as the
/// next, and as 0; at most a quarter of all) count as the farthest of the others: one would explain
/// everything. A conditional parameter counts as its middle where it does not exist.
///
/// One number per parameter of the space; empty with fewer than 10 complete trials or none that differ.
std::vector<double> parameter_importance(const SearchSpace& space, const std::vector<Trial>& trials,
                                         Direction direction);

}  // namespace ingot::tune
