#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ingot/forecast/plot.h"

// What the commands of `ingot forecast` share.
namespace ingot::cli {

/// Options of a configuration are empty where they were not given: the model's default holds.
struct ForecastOptions {
  std::string data, directory, fill, date_format, decimal, encoding, holidays, quantiles, scaler, split,
      output;
  std::optional<std::string> model, from, config, targets, columns, future, frequency, horizon, lookback,
      epochs, device, keys;
  std::vector<std::string> set, models, levels;
  std::int64_t stride = 0, season = 0, folds = 0, fold_rows = 0, windows = 0, hold_out = 0, save_every = 300;
  bool json = false, sort = false, resume = false, overwrite = false, refit = false;
};

int run_forecast_fit(const ForecastOptions& o);
/// The same with models that are fitted to each column's history (forecast/statistical).
int run_local_fit(const std::string& model, const ForecastOptions& o);
int run_local_predict(const ForecastOptions& o);
int run_local_evaluate(const ForecastOptions& o);
int run_local_plot(const ForecastOptions& o);
int run_forecast_compare(const ForecastOptions& o);
int run_forecast_predict(const ForecastOptions& o);
int run_forecast_evaluate(const ForecastOptions& o);
int run_forecast_plot(ForecastOptions o);

/// Fits with a bar called `label`, and a line per epoch if `tell_epochs`. Ctrl-C ends the fit after its step
/// and keeps the best weights.
struct FitView {
  std::string label;
  bool json = false, tell_epochs = true;
  dist::Communicator* ranks = nullptr;  ///< that fit together
};
forecast::Forecaster fit_shown(const forecast::FitConfig& config, const forecast::SeriesTable& table,
                               const FitView& view, const forecast::FitSaving& saving = {});

/// One configuration out of the file, the options and --set, in this order.
forecast::FitConfig fit_configuration(const ForecastOptions& o, const std::optional<std::string>& model);
/// The same for a model without training: how the table is read and split.
forecast::FitConfig reading_configuration(const ForecastOptions& o);
/// The directory to write: as asked for, or DATA-`name`.
std::string output_directory(const ForecastOptions& o, const std::string& data, const std::string& name);
/// Prints how large a table is, and what was understood of it; not with --json.
void tell_table(const forecast::SeriesTable& table, bool json);
/// What the user says of a table's reading, over what a model was fitted with.
void change_reading(forecast::TableOptions& options, const ForecastOptions& o);
/// InvalidConfig where a fit would replace a model of an earlier call, unless --overwrite or --resume says
/// so; IoError where it cannot be written.
void check_output_is_new(const ForecastOptions& o, const std::string& output);
/// InvalidConfig where the output would replace the user's table, or ends in none of `known`.
void check_output(const std::string& output, const std::string& data, const std::vector<std::string>& known);
/// The levels that were asked for; nothing where none was.
std::optional<std::vector<int>> asked_levels(const ForecastOptions& o);
/// Writes or prints forecasts, as CSV or, with --json or where the file's name ends so, JSON.
void give_forecasts(const ForecastOptions& o, const std::vector<forecast::SeriesForecast>& forecasts,
                    const forecast::SeriesTable& table, std::int64_t horizon);
/// Writes the page, and tells of it.
void give_plot(const ForecastOptions& o, const forecast::SeriesTable& table, const Report& report);
/// Prints errors and what is to be said of them, or their JSON.
void give_evaluation(const ForecastOptions& o, const forecast::Evaluation& evaluation,
                     const forecast::SeriesTable& table, std::int64_t horizon);

/// Prints what was understood of a table, what had to be made up in it, and what was left out.
void tell_reading(const forecast::SeriesTable& table, std::FILE* to);
/// Prints series that are left out, by reason.
void tell_left_out(const std::vector<forecast::LeftOut>& left_out, std::FILE* to);
/// Their ids.
std::vector<std::string> ids_of(const std::vector<forecast::LeftOut>& left_out);

nlohmann::ordered_json to_json(const forecast::Metrics& metrics);

}  // namespace ingot::cli
