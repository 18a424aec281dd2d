#pragma once

#include <cstdint>
#include <limits>

namespace ingot {

/// The least validation loss of a run, and how long ago it was: what early stopping asks.
struct BestEvaluation {
  std::int64_t step = -1;  ///< of the best evaluation
  double loss = std::numeric_limits<double>::infinity();
  std::int64_t since = 0;  ///< evaluations since the loss was first reached

  /// Takes in an evaluation; returns whether it is the best. With `ties`, one with the best loss is the best
  /// too; but it is not a gain, so weights that no longer move end a run. NaN is never the best.
  bool note(std::int64_t at, double value, bool ties = false) {
    const bool gain = value < loss, best = gain || (ties && value == loss);
    if (best) {
      step = at;
      loss = value;
    }
    since = gain ? 0 : since + 1;
    return best;
  }
};

}  // namespace ingot
