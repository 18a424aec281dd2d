#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ingot/tune/trial.h"

namespace ingot {
class ConfigReader;
}

namespace ingot::tune {

/// One of several objectives of a study.
struct Goal {
  std::string name;
  Direction direction = Direction::minimize;
};

/// Reads a mapping of objectives to directions, {loss: minimize, accuracy: maximize}; InvalidConfig names the
/// key of another direction.
std::vector<Goal> read_goals(const ConfigReader& section);

/// "loss minimize, size minimize": what a study's goals are, in words.
std::string describe(const std::vector<Goal>& goals);

/// Whether a is at least as good as b in every objective, and better in one.
bool dominates(const std::vector<Goal>& goals, const Trial& a, const Trial& b);

/// Indices of the complete trials, the best first: front by front, and within a front those that stand apart
/// from others first (fast non-dominated sorting and crowding distance of NSGA-II, Deb et al. 2002). Each
/// inner list is a front.
std::vector<std::vector<std::size_t>> pareto_fronts(const std::vector<Trial>& trials,
                                                    const std::vector<Goal>& goals);

/// The trials that no other dominates, by their first objective, the best first.
std::vector<Trial> pareto_front(const std::vector<Trial>& trials, const std::vector<Goal>& goals);

/// The same trials for what knows one value: that of a complete one is its rank among pareto_fronts(), so
/// that less is better.
std::vector<Trial> ranked_by_front(std::vector<Trial> trials, const std::vector<Goal>& goals);

}  // namespace ingot::tune
