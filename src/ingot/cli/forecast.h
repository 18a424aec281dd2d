#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ingot/forecast/plot.h"

// What the verbs of `ingot forecast` share.
namespace ingot::cli {

/// Options of a configuration are empty where they were not given: the model's default holds.
struct ForecastOptions {
  std::string data, directory, fill, scaler, split, output;
  std::optional<std::string> model, from, config, targets, columns, frequency, horizon, lookback, epochs,
      device;
  std::vector<std::string> set, models, levels;
  std::int64_t stride = 1, season = 0, folds = 0, fold_rows = 0, windows = 0, hold_out = 0, save_every = 300;
  bool json = false, sort = false, resume = false;
};

int run_forecast_fit(const ForecastOptions& o);
int run_forecast_compare(const ForecastOptions& o);
int run_forecast_predict(const ForecastOptions& o);
int run_forecast_evaluate(const ForecastOptions& o);
int run_forecast_plot(const ForecastOptions& o);

/// Fits with a bar called `label`, and a line per epoch if `tell_epochs`. Ctrl-C ends the fit after its epoch
/// and keeps the best weights.
struct FitView {
  std::string label;
  bool json = false, tell_epochs = true;
};
forecast::Forecaster fit_shown(const forecast::FitConfig& config, const forecast::SeriesTable& table,
                               const FitView& view, const forecast::FitSaving& saving = {});

/// Prints what had to be made up in a table, and what was left out.
void tell_gaps(const forecast::SeriesTable& table, std::FILE* to);

nlohmann::ordered_json to_json(const forecast::Metrics& metrics);

}  // namespace ingot::cli
