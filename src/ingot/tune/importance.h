#pragma once

#include <vector>

#include "ingot/tune/trial.h"

namespace ingot::tune {

/// What share of the objective's variance over the space each parameter explains alone; what they leave of 1
/// is due to several together. Functional ANOVA (Hutter et al. 2014) over a forest of 64 regression trees
/// that is fitted to the complete trials. Values far on the bad side (beyond the upper quartile by 1.5 times
/// the quartiles' distance) count as that border: one run that blew up would explain everything. A
/// conditional parameter counts as its middle where it does not exist.
///
/// One number per parameter of the space; empty with fewer than 10 complete trials or none that differ.
std::vector<double> parameter_importance(const SearchSpace& space, const std::vector<Trial>& trials,
                                         Direction direction);

}  // namespace ingot::tune
