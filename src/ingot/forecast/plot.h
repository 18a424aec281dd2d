#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ingot/base/report.h"
#include "ingot/forecast/evaluate.h"

namespace ingot::forecast {

struct LocalForecaster;

struct PlotOptions {
  std::int64_t history = 0;  ///< rows shown before a forecast; 0: five horizons and four seasons at least
  std::optional<int> level;  ///< of the interval; default: the widest of Calibration::usual_levels()
  std::int64_t most_charts = 24;
};

/// A page of every series: its recent rows and its continuation with an interval; below them the training
/// curve. The last `hold_out` rows are forecast, and what really came is drawn over the forecast. Where
/// inputs are not known ahead, a horizon is held out. A table tells how far off the model and simple
/// forecasts were over the last rows, each from the rows before them, where the model's fit has not seen
/// them. Series that this leaves less than a look-back are left out. InvalidConfig where all are.
Report forecast_report(const Forecaster& forecaster, const SeriesTable& table, std::int64_t hold_out,
                       const PlotOptions& options = {});

/// The same of a model that is fitted to each column's history.
Report local_report(const LocalForecaster& forecaster, const SeriesTable& table, std::int64_t hold_out,
                    const PlotOptions& options = {});

/// The curves of training and validation loss over epochs.
ReportChart training_chart(const std::vector<EpochReport>& epochs, const std::string& loss);

/// A method of `ingot forecast compare`.
struct Compared {
  Metrics metrics;
  double fit_seconds = 0;  ///< 0 for a baseline
  std::int64_t parameters = 0;
  bool stopped = false;  ///< before its fit was done
};
/// The index of the one with the least MASE (or MAE, where that is not defined).
std::size_t best_of(const std::vector<Compared>& methods);
Report comparison_report(const std::string& data, std::int64_t windows, const std::vector<Compared>& methods);

/// Metrics as a text table for the terminal.
std::string metrics_table(const std::vector<Metrics>& methods);

}  // namespace ingot::forecast
