#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/directory_lock.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/shell.h"
#include "ingot/cli/forecast_fitting.h"
#include "ingot/forecast/fit_json.h"
#include "ingot/forecast/forecast_text.h"
#include "ingot/forecast/plot.h"
#include "ingot/forecast/statistical/local_forecaster.h"
#include "ingot/forecast/table/future_columns.h"

namespace ingot::cli {
namespace {

using namespace ingot::forecast;
using Json = nlohmann::ordered_json;

SeriesTable read_for(const LocalForecaster& f, const ForecastOptions& o) {
  TableOptions options = f.table_options();
  change_reading(options, o);
  SeriesTable table = read_series(o.data, options);
  if (!o.json) tell_reading(table, stderr);
  return table;
}

Json scores_json(const LocalForecaster& f) {
  Json scores = Json::array();
  for (const LocalScore& score : f.scores) scores.push_back({{"model", score.model}, {"mase", score.mase}});
  return scores;
}

// By how much the one that was chosen is better than the next.
void tell_scores(const LocalForecaster& f) {
  if (f.scores.empty()) return;
  fmt::print("\nMASE over the last rows, forecast {} at a time from what came before:\n", f.horizon);
  for (const LocalScore& score : f.scores) fmt::print("  {:<16}{:>8.3f}\n", score.model, score.mase);
  if (f.scores.size() < 2) return;
  const double best = f.scores[0].mase, next = f.scores[1].mase;
  fmt::print("{} is chosen: its error is {:.1f} % below that of {}\n", f.model,
             next > 0 ? 100 * (1 - best / next) : 0.0, f.scores[1].model);
}

}  // namespace

void check_local_options(const std::string& model, const ForecastOptions& o) {
  const auto without_effect = [&](bool given, const char* option) {
    INGOT_CHECK(
        !given,
        InvalidConfig(option,
                      fmt::format("has no effect on {}, which is fitted to all rows of each column", model)));
  };
  without_effect(o.lookback.has_value(), "--lookback");
  without_effect(o.epochs.has_value(), "--epochs");
  without_effect(o.from.has_value(), "--from");
}

std::int64_t local_horizon(const ForecastOptions& o, const FitConfig& config, const SeriesTable& table) {
  const bool asked = o.horizon || config.model.horizon != ForecastModelConfig().horizon;
  return asked ? config.model.horizon : usual_horizon(table);
}

int run_local_fit(const std::string& model, const ForecastOptions& o) {
  check_local_options(model, o);
  INGOT_CHECK(!o.resume, InvalidConfig("--resume", fmt::format("has no effect on {}, whose fit is never left "
                                                               "unfinished",
                                                               model)));
  FitConfig config = reading_configuration(o);
  config.table.targets_only = true;
  SeriesTable table = read_data(config);
  tell_table(table, o.json);
  const std::int64_t horizon = local_horizon(o, config, table);
  const LocalForecaster f =
      fit_local({.model = model, .horizon = horizon, .season = o.season}, table, config.table, config.split);
  const std::string output = output_directory(o, config.data, f.model);
  check_output_is_new(o, output);
  const DirectoryLock lock(output);
  const Report report = local_report(f, table, 0);
  save_local_forecaster(output, f, &report);
  if (o.json) {
    fmt::print("{}\n", printable_json(dump_json(Json{{"model", output},
                                                     {"report", output + "/report.html"},
                                                     {"chosen", f.model},
                                                     {"horizon", f.horizon},
                                                     {"season", f.season},
                                                     {"scores", scores_json(f)},
                                                     {"read_as", table.read_as},
                                                     {"gaps", to_json(table.filled)},
                                                     {"skipped", ids_of(table.left_out)}},
                                                2)));
    return 0;
  }
  tell_scores(f);
  fmt::print(
      "\n{} with season {}, {} rows ahead\n  model   {}\n  report  {}/report.html\n\nGo on with:\n  ingot "
      "forecast predict {} {} -o forecast.csv\n"
      "  ingot forecast evaluate {} {}\n",
      f.model, f.season, f.horizon, printable(output), printable(output), shell_word(output),
      shell_word(config.data), shell_word(output), shell_word(config.data));
  return 0;
}

int run_local_predict(const ForecastOptions& o) {
  const LocalForecaster f = load_local_forecaster(o.directory);
  const SeriesTable table = read_for(f, o);
  const std::vector<double> quantiles = parse_quantiles(o.quantiles, "--quantiles");
  std::vector<SeriesForecast> forecasts =
      predict_local(f, table, levels_to_predict(asked_levels(o), quantiles, {80, 90}));
  take_quantiles(forecasts, quantiles, asked_levels(o));
  if (!o.json) tell_left_out(series_not_continued(table, 1, f.horizon), stderr);
  give_forecasts(o, forecasts, table, f.horizon);
  return 0;
}

int run_local_evaluate(const ForecastOptions& o) {
  LocalForecaster f = load_local_forecaster(o.directory);
  if (!o.split.empty()) f.split.kind = o.split;
  INGOT_CHECK(
      o.folds == 0,
      InvalidConfig(
          "--folds",
          fmt::format("{} is fitted anew before every forecast as it is; leave the option out", f.model)));
  const SeriesTable table = read_for(f, o);
  // A fit for each forecast: one from every row of a long table would take hours.
  const std::int64_t stride = o.stride == 0 ? std::max<std::int64_t>(1, f.horizon / 2) : o.stride;
  give_evaluation(
      o,
      evaluate_local(f, table,
                     {.stride = stride, .season = o.season, .levels = asked_levels(o), .windows = o.windows}),
      table, f.horizon);
  return 0;
}

int run_local_plot(const ForecastOptions& o) {
  const LocalForecaster f = load_local_forecaster(o.directory);
  const SeriesTable table = read_for(f, o);
  PlotOptions options;
  if (const auto levels = asked_levels(o)) options.level = levels->back();
  give_plot(o, table, local_report(f, table, o.hold_out, options));
  return 0;
}

}  // namespace ingot::cli
