#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ingot/forecast/forecaster.h"

namespace ingot::forecast {

/// Errors of one method over all test windows, targets and steps, where the value was measured.
struct Metrics {
  std::string method;
  double mse = 0, mae = 0;  ///< of scaled values, as papers print them
  /// Mean |error| over that of the seasonal naive forecast one step ahead of the training part, over the
  /// columns where that makes errors; NaN where it makes none in any of them.
  double mase = 0;
  double smape = 0;                 ///< mean 200·|error| / (|actual| + |forecast|), per cent
  std::map<int, double> coverage;   ///< per cent of values inside the intervals of a level; a network's only
  double seconds = 0;               ///< to forecast all windows
  std::vector<double> mae_by_step;  ///< scaled, [horizon]; NaN where no value was measured
};

struct EvaluateOptions {
  std::int64_t stride = 1;  ///< rows between the origins of forecasts
  std::int64_t season = 0;  ///< of the baselines and of MASE; 0: what suits the frequency
  /// Of the intervals to check; default: Calibration::usual_levels().
  std::optional<std::vector<int>> levels = {};
  /// The test part is the last so many rows of each series, and what is before them the training part of the
  /// baselines; 0: as config.split says.
  std::int64_t test_rows = 0;
  /// Only so many windows of each series count, from the first on; 0: all. Published programs that leave out
  /// an incomplete last batch have fewer than the test part holds.
  std::int64_t windows = 0;
  /// No forecast begins before this row of a series, so that a model that reads less counts no more of them.
  std::int64_t first_row = 0;
  /// What scales the values that MSE and MAE of models without training are of; networks have their own.
  ScalerKind scaler = ScalerKind::standard;
  /// Called between batches of a network's windows and between methods; what it throws ends the evaluation.
  std::function<void()> on_batch = {};
};

struct Evaluation {
  std::int64_t windows = 0;
  std::int64_t season = 1;
  std::vector<Metrics> methods;      ///< the network, naive, seasonal naive, ETS
  std::vector<std::string> skipped;  ///< ids of series whose test part holds no window
  std::vector<std::string> notes;    ///< what a reader of the numbers has to know, in sentences
  std::string verdict;               ///< a sentence where a simple forecast is better than the first method
};

/// Says which method has the least MASE (or MAE, where that is not defined), if it is not the first; else "".
std::string verdict(const std::vector<Metrics>& methods);

/// InvalidConfig for a stride below 1, windows below 0, and for a season that the training part of a series
/// does not hold.
void check_evaluation(const SplitOptions& split, const SeriesTable& table, const EvaluateOptions& options);

/// Forecasts from rolling origins: every window of the test part (of config.split over this table) that
/// counts, with the network and with the baselines. DataError where there is no test window, and where none
/// of their values was measured; InvalidConfig as check_evaluation and Forecaster::check_levels say.
Evaluation evaluate(const Forecaster& forecaster, const SeriesTable& table,
                    const EvaluateOptions& options = {});

}  // namespace ingot::forecast
