#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ingot/forecast/forecaster.h"

namespace ingot::forecast {

/// Errors of one method over all test windows, targets and steps.
struct Metrics {
  std::string method;
  double mse = 0, mae = 0;  ///< of scaled values, as papers print them
  double mase =
      0;  ///< mean |error| over that of the seasonal naive forecast one step ahead of the training part
  double smape = 0;                ///< mean 200·|error| / (|actual| + |forecast|), per cent
  std::map<int, double> coverage;  ///< per cent of values inside the intervals of a level; a network's only
  double seconds = 0;              ///< to forecast all windows
};

struct EvaluateOptions {
  std::int64_t stride = 1;  ///< rows between the origins of forecasts
  std::int64_t season = 0;  ///< of the baselines and of MASE; 0: what suits the frequency
  std::vector<int> levels{80, 90};
};

struct Evaluation {
  std::int64_t windows = 0;
  std::int64_t season = 1;
  std::vector<Metrics> methods;           ///< the network, naive, seasonal naive, ETS
  std::vector<double> mae_by_step;        ///< the network's, scaled, [horizon]
  std::vector<double> naive_mae_by_step;  ///< the seasonal naive forecast's
};

/// Forecasts from rolling origins: every window of the test part (of config.split over this table), with the
/// network and with the baselines. DataError where there is no test window.
Evaluation evaluate(const Forecaster& forecaster, const SeriesTable& table,
                    const EvaluateOptions& options = {});

}  // namespace ingot::forecast
