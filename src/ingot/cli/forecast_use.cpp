#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/log.h"
#include "ingot/cli/forecast.h"
#include "ingot/forecast/forecast_text.h"

namespace ingot::cli {
namespace {

using namespace ingot::forecast;
using Json = nlohmann::ordered_json;

int parse_level(const std::string& word) {
  const bool number =
      !word.empty() && word.size() <= 2 && word.find_first_not_of("0123456789") == std::string::npos;
  INGOT_CHECK(
      number && word != "0" && word != "00",
      InvalidConfig("--level", fmt::format("'{}' is no level; expected per cent from 1 to 99", word)));
  return std::stoi(word);
}

// Those that were asked for; nothing where none was.
std::optional<std::vector<int>> asked_levels(const ForecastOptions& o) {
  if (o.levels.empty()) return std::nullopt;
  std::vector<int> levels;
  for (const std::string& word : o.levels) levels.push_back(parse_level(word));
  return levels;
}

TableOptions table_options(const ForecastOptions& o, const Forecaster& f) {
  TableOptions options = f.table_options();
  if (!o.fill.empty()) options.fill = parse_fill_method(o.fill, "--fill");
  if (o.sort) options.sort = true;
  return options;
}

Json methods_json(const std::vector<Metrics>& methods) {
  Json json = Json::array();
  for (const Metrics& m : methods) json.push_back(to_json(m));
  return json;
}

Json to_json(const Evaluation& e) {
  return {{"windows", e.windows},
          {"season", e.season},
          {"skipped", e.skipped},
          {"notes", e.notes},
          {"methods", methods_json(e.methods)}};
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

int run_forecast_predict(const ForecastOptions& o) {
  const Forecaster f = load_forecaster(o.directory);
  const SeriesTable table = read_series(o.data, table_options(o, f));
  tell_filled(table, o.json || o.output.empty());
  const auto asked = asked_levels(o);
  const auto forecasts = predict(f, table, asked.value_or(f.calibration.usual_levels()));
  if (const std::string note = f.calibration.missing_levels(); !asked && !note.empty()) {
    log(LogLevel::warn, "ingot::forecast", note);
  }
  if (!o.output.empty()) write_file_atomically(o.output, to_csv(forecasts, table));
  const std::int64_t horizon = f.config.model.horizon;
  if (o.json) {
    fmt::print("{}\n",
               dump_json(o.output.empty()
                             ? Json{{"horizon", horizon}, {"series", to_json(forecasts, table)}}
                             : Json{{"output", o.output}, {"series", forecasts.size()}, {"horizon", horizon}},
                         2));
  } else if (o.output.empty()) {
    fmt::print("{}", to_csv(forecasts, table));
  } else {
    fmt::print("{} rows ahead of {} series written to {}\n", horizon, forecasts.size() * table.targets,
               o.output);
  }
  return 0;
}

int run_forecast_evaluate(const ForecastOptions& o) {
  Forecaster f = load_forecaster(o.directory);
  if (!o.split.empty()) f.config.split.kind = o.split;
  const SeriesTable table = read_series(o.data, table_options(o, f));
  const Evaluation e =
      evaluate(f, table, {.stride = o.stride, .season = o.season, .levels = asked_levels(o)});
  if (o.json) {
    fmt::print("{}\n", dump_json(to_json(e), 2));
    return 0;
  }
  fmt::print("{} forecasts of {} rows from rolling origins in the test part of {}; season {}\n\n{}\n",
             e.windows, f.config.model.horizon, o.data, e.season, metrics_table(e.methods));
  for (const std::string& note : e.notes) fmt::print("{}\n", note);
  fmt::print(
      "MSE and MAE are of scaled values, as papers print them; MASE below 1 beats the seasonal naive\n"
      "forecast of one step; 'in 90 %' is the share of values inside that interval.\n");
  return 0;
}

int run_forecast_plot(const ForecastOptions& o) {
  const Forecaster f = load_forecaster(o.directory);
  const SeriesTable table = read_series(o.data, table_options(o, f));
  const std::string output = o.output.empty() ? "forecast.html" : o.output;
  PlotOptions options;
  if (!o.levels.empty()) options.level = parse_level(o.levels.back());
  write_report(output, forecast_report(f, table, o.hold_out, options));
  if (o.json)
    fmt::print("{}\n", dump_json(Json{{"output", output}}, 2));
  else
    fmt::print("written to {}\n", output);
  return 0;
}

}  // namespace ingot::cli
