#pragma once

#include <string>
#include <vector>

#include "ingot/base/report.h"
#include "ingot/forecast/evaluate.h"

namespace ingot::forecast {

struct PlotOptions {
  std::int64_t history = 0;  ///< rows shown before a forecast; 0: three horizons
  int level = 90;            ///< of the interval
  std::int64_t most_charts = 24;
};

/// A page of every series: its recent rows and its continuation with an interval; below them the training
/// curve. Where the table reaches beyond `hold_out` rows, what really came is drawn over the forecast.
Report forecast_report(const Forecaster& forecaster, const SeriesTable& table, std::int64_t hold_out,
                       const PlotOptions& options = {});

/// The curves of training and validation loss over epochs.
ReportChart training_chart(const std::vector<EpochReport>& epochs, const std::string& loss);

/// A method of `ingot forecast compare`.
struct Compared {
  Metrics metrics;
  std::vector<double> mae_by_step;  ///< empty for a baseline without one
  double fit_seconds = 0;           ///< 0 for a baseline
  std::int64_t parameters = 0;
};
Report comparison_report(const std::string& data, std::int64_t windows, const std::vector<Compared>& methods);

/// Metrics as a text table for the terminal.
std::string metrics_table(const std::vector<Metrics>& methods);

}  // namespace ingot::forecast
