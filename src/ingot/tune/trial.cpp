#include "ingot/tune/trial.h"

#include <cmath>

namespace ingot::tune {

std::string_view name(Direction direction) {
  return direction == Direction::minimize ? "minimize" : "maximize";
}

std::string_view name(TrialState state) {
  switch (state) {
    case TrialState::waiting:
      return "waiting";
    case TrialState::running:
      return "running";
    case TrialState::complete:
      return "complete";
    case TrialState::pruned:
      return "pruned";
    case TrialState::failed:
      return "failed";
  }
  return "";
}

bool better(Direction direction, double a, double b) {
  if (std::isnan(a)) return false;
  if (std::isnan(b)) return true;
  return direction == Direction::minimize ? a < b : a > b;
}

const Trial* best_of(const std::vector<Trial>& trials, Direction direction) {
  const Trial* best = nullptr;
  for (const Trial& trial : trials) {
    if (trial.state != TrialState::complete) continue;
    if (best == nullptr || better(direction, trial.value, best->value)) best = &trial;
  }
  return best;
}

}  // namespace ingot::tune
