#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/tune/space.h"

namespace ingot::tune {

enum class Direction : std::uint8_t { minimize, maximize };

/// `waiting`: given up by a worker that died; the next one that asks gets it, with the same values.
enum class TrialState : std::uint8_t { waiting, running, complete, pruned, failed };

std::string_view name(Direction direction);
std::string_view name(TrialState state);

/// What a trial reported on its way.
struct Report {
  std::int64_t step = 0;
  double value = 0;
};

/// What the note of a pruned trial begins with where its objective ended it, not a pruner.
inline constexpr std::string_view kDiverged = "diverged: ";

/// One try.
struct Trial {
  std::int64_t number = 0;  ///< from 0, in the order of starting
  TrialState state = TrialState::running;
  Values values;
  double value = 0;  ///< of a complete one; NaN otherwise
  std::vector<double> objectives =
      {};                         ///< of a complete one: in the order of the study's; the first is `value`
  std::vector<Report> reports;    ///< by ascending step
  double started = 0, ended = 0;  ///< seconds since 1970; 0: not yet
  std::int64_t attempts = 0;      ///< how often it was begun
  std::int64_t lease = 0;         ///< who may report on it: changes with every attempt
  std::string worker;             ///< "host:process"
  std::string note;               ///< why it failed or was pruned, or who gave it up

  bool finished() const {
    return state == TrialState::complete || state == TrialState::pruned || state == TrialState::failed;
  }
};

/// a is a better value than b. NaN is worse than everything.
bool better(Direction direction, double a, double b);
/// The complete trial with the best value, the first of equals; nullptr where there is none.
const Trial* best_of(const std::vector<Trial>& trials, Direction direction);
const Trial* best_of(std::vector<Trial>&& trials, Direction direction) = delete;  // it would not outlive them

}  // namespace ingot::tune
