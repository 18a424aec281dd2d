#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/log.h"
#include "ingot/base/plural.h"
#include "ingot/base/printable.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/forecast.h"
#include "ingot/cli/help_page.h"
#include "ingot/cli/inference.h"
#include "ingot/cli/interrupt.h"
#include "ingot/cli/text_table.h"
#include "ingot/core/device_config.h"
#include "ingot/forecast/cross_validate.h"
#include "ingot/forecast/fit_json.h"
#include "ingot/forecast/forecast_text.h"
#include "ingot/forecast/statistical/local_forecaster.h"
#include "ingot/forecast/table/date_column.h"
#include "ingot/forecast/table/future_columns.h"

namespace ingot::cli {
namespace {

using namespace ingot::forecast;
using Json = nlohmann::ordered_json;

int parse_level(const std::string& word) {
  const bool number =
      !word.empty() && word.size() <= 2 && word.find_first_not_of("0123456789") == std::string::npos;
  INGOT_CHECK(
      number && word != "0" && word != "00",
      InvalidConfig("--level", fmt::format("'{}' is not a level; expected per cent from 1 to 99", word)));
  return std::stoi(word);
}

Forecaster loaded(const ForecastOptions& o) {
  return load_forecaster(o.directory, choose_device(o.device.value_or("auto")));
}

TableOptions table_options(const ForecastOptions& o, const Forecaster& f) {
  TableOptions options = f.table_options();
  change_reading(options, o);
  return options;
}

Json methods_json(const std::vector<Metrics>& methods) {
  Json json = Json::array();
  for (const Metrics& m : methods) json.push_back(to_json(m));
  return json;
}

// The table for a model, with what is told of its gaps; on stderr, since the result may be data.
SeriesTable read_for(const Forecaster& f, const ForecastOptions& o) {
  SeriesTable table = read_series(o.data, table_options(o, f));
  if (!o.json) tell_reading(table, stderr);
  return table;
}

Json to_json(const Evaluation& e) {
  return {{"windows", e.windows}, {"season", e.season},   {"skipped", e.skipped},
          {"notes", e.notes},     {"verdict", e.verdict}, {"methods", methods_json(e.methods)}};
}

}  // namespace

Json to_json(const Metrics& m) {
  Json json{{"method", m.method},
            {"mse", m.mse},
            {"mae", m.mae},
            {"mase", std::isnan(m.mase) ? Json() : Json(m.mase)},
            {"smape", m.smape}};
  Json coverage = Json::object();
  for (const auto& [level, share] : m.coverage) coverage[std::to_string(level)] = share;
  if (!coverage.empty()) json["coverage"] = coverage;
  json["seconds"] = m.seconds;
  return json;
}

std::optional<std::vector<int>> asked_levels(const ForecastOptions& o) {
  if (o.levels.empty()) return std::nullopt;
  std::vector<int> levels;
  for (const std::string& words : o.levels) {
    for (std::size_t at = 0; at <= words.size();) {  // 80,90 is two
      const std::size_t end = std::min(words.find(',', at), words.size());
      levels.push_back(parse_level(words.substr(at, end - at)));
      at = end + 1;
    }
  }
  return levels;
}

void check_output(const std::string& output, const std::string& data, const std::vector<std::string>& known) {
  std::error_code neither;
  INGOT_CHECK(output.empty() || !std::filesystem::equivalent(output, data, neither),
              InvalidConfig("--output", fmt::format("'{}' is the table itself; name another file", output)));
  check_ending("--output", output, known);
}

void change_reading(TableOptions& options, const ForecastOptions& o) {
  if (!o.fill.empty()) options.fill = parse_fill_method(o.fill, "--fill");
  if (o.sort) options.sort = true;
  if (!o.date_format.empty()) {
    check_date_choice(o.date_format, "--date-format");
    options.date_format = o.date_format;
  }
  if (!o.holidays.empty()) options.holidays = o.holidays;
  if (!o.decimal.empty()) options.decimal = parse_decimal_mark(o.decimal, "--decimal");
  if (!o.encoding.empty()) options.encoding = o.encoding;
}

void give_forecasts(const ForecastOptions& o, const std::vector<SeriesForecast>& forecasts,
                    const SeriesTable& table, std::int64_t horizon) {
  const bool as_json = ending_of(o.output) == ".json";
  if (o.output.empty() || is_standard_output(o.output)) {
    print_piece(o.json ? printable_json(to_json(forecasts, table)) + "\n" : to_csv(forecasts, table));
    return;
  }
  write_file_atomically(o.output, as_json ? to_json(forecasts, table) + "\n" : to_csv(forecasts, table));
  if (o.json) {
    const Json json{{"output", o.output},
                    {"series", forecasts.size() * table.targets},
                    {"horizon", horizon},
                    {"gaps", to_json(table.filled)},
                    {"skipped", ids_without_forecast(forecasts, table)}};
    fmt::print("{}\n", printable_json(dump_json(json, 2)));
  } else {
    fmt::print("{} ahead of {} series written to {}\n", counted(horizon, "row"),
               forecasts.size() * table.targets, printable(o.output));
  }
}

void give_evaluation(const ForecastOptions& o, const Evaluation& e, const SeriesTable& table,
                     std::int64_t horizon) {
  if (o.json) {
    Json json = to_json(e);
    for (const LeftOut& series : table.left_out) json["skipped"].push_back(series.id);
    json["read_as"] = table.read_as;
    json["gaps"] = to_json(table.filled);
    fmt::print("{}\n", printable_json(dump_json(json, 2)));
    return;
  }
  const std::string what =
      fmt::format("{} of {} from rolling origins in the test part of {}; season {}",
                  counted(e.windows, "forecast"), counted(horizon, "row"), printable(o.data), e.season);
  fmt::print("{}\n\n{}\n", wrap_on_terminal(what, 2, STDOUT_FILENO),
             cut_on_terminal(metrics_table(e.methods)));
  for (const std::string& note : e.notes)
    fmt::print("{}\n", wrap_on_terminal(printable(note), 0, STDOUT_FILENO));
  if (!e.verdict.empty()) fmt::print("{}\n", wrap_on_terminal(e.verdict, 0, STDOUT_FILENO));
  const std::map<int, double>& coverage = e.methods[0].coverage;
  const std::string inside =
      coverage.empty()
          ? ""
          : fmt::format("; 'in {} %' is the share of values inside that interval", coverage.rbegin()->first);
  fmt::print("{}\n",
             wrap_on_terminal(fmt::format("MSE and MAE are of scaled values, as papers print them; MASE "
                                          "below 1 beats the seasonal naive\nforecast of one step{}.",
                                          inside),
                              0, STDOUT_FILENO));
}

int run_forecast_predict(const ForecastOptions& o) {
  check_output(o.output, o.data, {".csv", ".json"});
  if (is_local_forecaster(o.directory)) return run_local_predict(o);
  const Forecaster f = loaded(o);
  const SeriesTable table = read_for(f, o);
  const auto asked = asked_levels(o);
  const std::vector<double> quantiles = parse_quantiles(o.quantiles, "--quantiles");
  auto forecasts = predict(f, table, levels_to_predict(asked, quantiles, f.calibration.usual_levels()));
  take_quantiles(forecasts, quantiles, asked);
  if (const std::string note = f.calibration.missing_levels(); !asked && quantiles.empty() && !note.empty()) {
    log(LogLevel::warn, "ingot::forecast", note);
  }
  if (!o.json)
    tell_left_out(series_not_continued(table, f.config.model.lookback, f.config.model.horizon), stderr);
  give_forecasts(o, forecasts, table, f.config.model.horizon);
  return 0;
}

namespace {

void print_folds(const CrossValidation& v, const SeriesTable& table) {
  constexpr std::size_t kWide = 20;
  fmt::print("\nfold  {:<{}}{:>8}{:>8}{:>9}{:>9}{:>9}", "from", kWide, "rows", "epochs", "MSE", "MAE",
             "MASE");
  for (std::size_t m = 1; m < v.mean.size(); ++m) fmt::print("{:>16}", v.mean[m].method);
  const auto row = [&](const std::vector<Metrics>& methods) {
    const Metrics& own = methods[0];
    fmt::print("{:>9.4f}{:>9.4f}{:>9}", own.mse, own.mae,
               std::isnan(own.mase) ? "-" : fmt::format("{:.3f}", own.mase));
    for (std::size_t m = 1; m < methods.size(); ++m) fmt::print("{:>16.4f}", methods[m].mae);
    fmt::print("\n");
  };
  fmt::print("\n");
  for (std::size_t i = 0; i < v.folds.size(); ++i) {
    const Fold& fold = v.folds[i];
    fmt::print("{:<6}{:<{}}{:>8}{:>8}", i + 1, format_moment(fold.origin, table.date_style), kWide, fold.rows,
               fold.epochs);
    row(fold.evaluation.methods);
  }
  fmt::print("{:<{}}", "mean", kWide + 22);
  row(v.mean);
  fmt::print("Of the simple forecasts on the right stands the MAE. Mean of {} folds:\n\n{}", v.folds.size(),
             cut_on_terminal(metrics_table(v.mean)));
}

Json to_json(const CrossValidation& v, const SeriesTable& table) {
  Json folds = Json::array();
  for (const Fold& fold : v.folds) {
    Json json{
        {"from", format_moment(fold.origin, table.date_style)}, {"rows", fold.rows}, {"epochs", fold.epochs}};
    json.update(to_json(fold.evaluation));
    folds.push_back(json);
  }
  return {{"folds", folds},
          {"skipped", ids_of(v.left_out)},
          {"mean", methods_json(v.mean)},
          {"stopped", v.stopped},
          {"gaps", to_json(table.filled)}};
}

int run_cross_validation(const ForecastOptions& o, const Forecaster& f, const SeriesTable& table) {
  INGOT_CHECK(
      !f.column_names.empty(),
      InvalidConfig("--folds", fmt::format("{} was not fitted by ingot forecast fit, so nothing says how "
                                           "to fit it anew",
                                           o.directory)));
  const CrossValidationOptions options{.folds = o.folds,
                                       .test_rows = o.fold_rows,
                                       .stride = o.stride == 0 ? 1 : o.stride,
                                       .season = o.season,
                                       .levels = asked_levels(o)};
  const auto fit = [&](std::int64_t fold, const FitConfig& config, const SeriesTable& before) {
    return fit_shown(
        config, before,
        {.label = fmt::format("fold {} of {}", fold + 1, o.folds), .json = o.json, .tell_epochs = false});
  };
  const CrossValidation v = cross_validate(f.config, table, options, fit);
  if (o.json) {
    fmt::print("{}\n", printable_json(dump_json(to_json(v, table), 2)));
  } else {
    tell_left_out(v.left_out, stdout);
    if (!v.folds.empty()) {
      print_folds(v, table);
      for (const std::string& note : v.folds.back().evaluation.notes)
        fmt::print("{}\n", wrap_on_terminal(printable(note), 0, STDOUT_FILENO));
    }
    if (v.stopped) fmt::print("\nstopped after {} of {} folds\n", v.folds.size(), o.folds);
  }
  return v.stopped ? interrupt_exit_code() : 0;
}

}  // namespace

int run_forecast_evaluate(const ForecastOptions& o) {
  if (is_local_forecaster(o.directory)) return run_local_evaluate(o);
  Forecaster f = loaded(o);
  if (!o.split.empty()) f.config.split.kind = o.split;
  const SeriesTable table = read_for(f, o);
  INGOT_CHECK(o.fold_rows == 0 || o.folds != 0, InvalidConfig("--fold-rows", "needs --folds"));
  INGOT_CHECK(o.windows == 0 || o.folds == 0, InvalidConfig("--windows", "cannot be given with --folds"));
  if (o.folds != 0) return run_cross_validation(o, f, table);
  const Evaluation e = evaluate(f, table,
                                {.stride = o.stride == 0 ? 1 : o.stride,
                                 .season = o.season,
                                 .levels = asked_levels(o),
                                 .windows = o.windows});
  give_evaluation(o, e, table, f.config.model.horizon);
  return 0;
}

void give_plot(const ForecastOptions& o, const SeriesTable& table, const Report& report) {
  write_report(o.output, report);
  if (is_standard_output(o.output)) return;
  if (o.json)
    fmt::print("{}\n", printable_json(dump_json(Json{{"output", o.output},
                                                     {"read_as", table.read_as},
                                                     {"gaps", to_json(table.filled)},
                                                     {"skipped", ids_of(table.left_out)}},
                                                2)));
  else
    fmt::print("written to {}\n", printable(o.output));
}

int run_forecast_plot(ForecastOptions o) {
  if (o.output.empty()) o.output = "forecast.html";
  check_output(o.output, o.data, {".html", ".htm"});
  if (is_local_forecaster(o.directory)) return run_local_plot(o);
  const Forecaster f = loaded(o);
  const SeriesTable table = read_for(f, o);
  PlotOptions options;
  if (!o.levels.empty()) options.level = parse_level(o.levels.back());
  give_plot(o, table, forecast_report(f, table, o.hold_out, options));
  return 0;
}

}  // namespace ingot::cli
