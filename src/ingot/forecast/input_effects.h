#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ingot/forecast/windows.h"

// Linear effects of inputs that are known ahead, by least squares.
namespace ingot::forecast {

/// Sums over rows, from which effects follow. What counts is how values change from row to row, less what
/// they change by on average at that position of the season: neither a trend nor a season is taken for an
/// effect.
class EffectSums {
 public:
  explicit EffectSums(std::size_t inputs) : inputs_(inputs), products_(inputs * inputs), with_y_(inputs) {}

  /// Adds a column: `y[row]` of rows that `measured` says so of, with inputs[i][row]. A season of which
  /// there are fewer than three is not taken off.
  void add(std::span<const double> y, const std::vector<std::span<const double>>& inputs, std::int64_t season,
           const std::vector<bool>& made_up = {});
  /// The change of y for one of each input; 0 of inputs that never change, and of all where there are too few
  /// rows to tell.
  std::vector<double> solve() const;

 private:
  std::size_t inputs_, changes_ = 0;
  std::vector<double> products_, with_y_;  // [inputs, inputs], [inputs]
};

/// Puts shift and scale of the inputs over the training rows, and their effects there, into a network that
/// has such; does nothing to another.
void start_effects(ForecastModel& model, const SeriesTable& table, const SplitOptions& split,
                   const DataSplit& parts);

}  // namespace ingot::forecast
