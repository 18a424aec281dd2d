#include "ingot/c_api/forecast.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/c_api/inner/handles.h"
#include "ingot/core/device_config.h"
#include "ingot/forecast/evaluate.h"
#include "ingot/forecast/forecast_text.h"
#include "ingot/forecast/forecaster.h"

using namespace ingot;
using namespace ingot::c_api;
using namespace ingot::forecast;

struct IngotTable : Object {
  static constexpr const char* kName = "table";
  SeriesTable read(const TableOptions& options) const {
    if (!path.empty()) return read_series(path, options);
    return read_series(CsvTable::parse(text, "table", data::LabelLines::passed_over), options);
  }
  std::string path, text;  // one of them
};

struct IngotForecaster : Object {
  static constexpr const char* kName = "forecaster";
  explicit IngotForecaster(Forecaster f) : forecaster(std::move(f)) {}
  SeriesTable read(const IngotTable* table) const {
    SeriesTable read = object_of(table)->read(forecaster.table_options());
    forecaster.check(read);
    return read;
  }
  Forecaster forecaster;
};

struct IngotPrediction : Object {
  static constexpr const char* kName = "prediction";
  IngotPrediction(std::vector<SeriesForecast> f, SeriesTable t);
  const SeriesForecast& at(std::size_t series, std::size_t target) const;

  std::vector<SeriesForecast> forecasts;
  SeriesTable table;
  std::vector<std::vector<std::string>> times;  // of each series
  std::vector<std::vector<const char*>> time_pointers;
};

struct IngotEvaluation : Object {
  static constexpr const char* kName = "evaluation";
  explicit IngotEvaluation(Evaluation e) : evaluation(std::move(e)) {}
  Evaluation evaluation;
};

IngotPrediction::IngotPrediction(std::vector<SeriesForecast> f, SeriesTable t)
    : forecasts(std::move(f)), table(std::move(t)) {
  times.reserve(forecasts.size());
  time_pointers.reserve(forecasts.size());
  for (const SeriesForecast& one : forecasts) {
    auto& written = times.emplace_back();
    written.reserve(one.times.size());
    for (const Moment moment : one.times) written.push_back(format_moment(moment, table.date_style));
    auto& pointers = time_pointers.emplace_back();
    pointers.reserve(written.size());
    for (const std::string& text : written) pointers.push_back(text.c_str());
  }
}

const SeriesForecast& IngotPrediction::at(std::size_t series, std::size_t target) const {
  if (series >= forecasts.size())
    throw InvalidArgument("series", fmt::format("is {}; there are {}", series, forecasts.size()));
  if (target >= table.targets)
    throw InvalidArgument("target", fmt::format("is {}; there are {}", target, table.targets));
  return forecasts[series];
}

namespace ingot::c_api {
namespace {

/// A cell in quotes, so that it may hold whatever a name or a date does.
std::string csv_cell(const std::string& text) {
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? "\"\"" : std::string(1, c);
  return cell + "\"";
}

std::string csv_of(const IngotColumns& c) {
  const auto times = array_arg(c.times, c.rows, "columns.times");
  const auto names = array_arg(c.names, c.columns, "columns.names");
  const auto values = array_arg(c.values, c.columns, "columns.values");
  for (const double* column : values) array_arg(column, c.rows, "columns.values");
  std::string csv = c.ids != nullptr ? "unique_id,ds" : "ds";
  for (const char* one : names) csv += "," + csv_cell(string_arg(one, "columns.names"));
  csv += "\n";
  for (std::size_t row = 0; row < c.rows; ++row) {
    if (c.ids != nullptr) csv += csv_cell(string_arg(c.ids[row], "columns.ids")) + ",";
    csv += csv_cell(string_arg(times[row], "columns.times"));
    for (const double* column : values)
      csv += std::isnan(column[row]) ? "," : fmt::format(",{}", column[row]);
    csv += "\n";
  }
  return csv;
}

}  // namespace
}  // namespace ingot::c_api

extern "C" {

IngotStatus ingot_table_open(const char* path, IngotTable** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    auto table = std::make_shared<IngotTable>();
    table->path = string_arg(path, "path");
    if (table->path.empty()) throw InvalidArgument("path", "is empty");
    made = open_handle(std::move(table));
  });
}

IngotStatus ingot_table_from_csv(const char* text, IngotTable** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    auto table = std::make_shared<IngotTable>();
    table->text = string_arg(text, "text");
    if (table->text.empty()) throw InvalidArgument("text", "is empty; a table has a header at least");
    made = open_handle(std::move(table));
  });
}

IngotStatus ingot_table_from_columns(const IngotColumns* columns, IngotTable** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    required(columns, "columns");
    auto table = std::make_shared<IngotTable>();
    table->text = csv_of(options_or(columns));
    made = open_handle(std::move(table));
  });
}

IngotStatus ingot_table_close(IngotTable* table) {
  return call(__func__, [&] { close_handle(table); });
}

IngotStatus ingot_forecaster_fit(const char* settings, const IngotTable* table, IngotOnFitStep on_step,
                                 void* user, IngotForecaster** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    Config file = Config::parse(string_arg(settings, "settings"), "settings");
    FitConfig config = read_fit_config(file);
    const SeriesTable series = object_of(table)->read(config.table);
    bool stop = false;
    FitHooks hooks;
    hooks.on_step = [&](std::int64_t done, std::int64_t total, double loss) {
      if (on_step != nullptr && on_step(done, total, loss, user) != 0) stop = true;
    };
    hooks.should_stop = [&] { return stop; };
    made = open_handle(std::make_shared<IngotForecaster>(fit_forecaster(std::move(config), series, hooks)));
  });
}

IngotStatus ingot_forecaster_save(IngotForecaster* forecaster, const char* directory) {
  return call(__func__, [&] {
    const Use<IngotForecaster> f(forecaster);
    save_forecaster(string_arg(directory, "directory"), f->forecaster);
  });
}

IngotStatus ingot_forecaster_open(const char* directory, const char* device, IngotForecaster** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    made = open_handle(std::make_shared<IngotForecaster>(load_forecaster(
        string_arg(directory, "directory"), choose_device(device == nullptr ? "auto" : device))));
  });
}

IngotStatus ingot_forecaster_close(IngotForecaster* forecaster) {
  return call(__func__, [&] { close_handle(forecaster); });
}

IngotStatus ingot_forecaster_info(IngotForecaster* forecaster, IngotForecasterInfo* info, size_t size) {
  return call(__func__, [&] {
    const Use<IngotForecaster> f(forecaster);
    const Forecaster& model = f->forecaster;
    IngotForecasterInfo values{.horizon = model.config.model.horizon,
                               .lookback = model.config.model.lookback,
                               .targets = static_cast<std::int64_t>(model.targets),
                               .epochs = static_cast<std::int64_t>(model.epochs.size()),
                               .validation_loss = std::numeric_limits<double>::quiet_NaN()};
    for (const EpochReport& epoch : model.epochs)
      values.validation_loss = std::fmin(values.validation_loss, epoch.validation_loss);
    fill(info, size, values, "info");
  });
}

IngotStatus ingot_forecaster_predict(IngotForecaster* forecaster, const IngotTable* table,
                                     const int32_t* levels, size_t count, IngotPrediction** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const Use<IngotForecaster> f(forecaster);
    const auto asked = array_arg(levels, count, "levels");
    SeriesTable series = f->read(table);
    auto forecasts = predict(f->forecaster, series, std::vector<int>(asked.begin(), asked.end()));
    made = open_handle(std::make_shared<IngotPrediction>(std::move(forecasts), std::move(series)));
  });
}

IngotStatus ingot_prediction_size(const IngotPrediction* prediction, size_t* series, size_t* targets,
                                  size_t* horizon) {
  return call(__func__, [&] {
    auto &s = result(series, "series"), &t = result(targets, "targets"), &h = result(horizon, "horizon");
    const auto p = object_of(prediction);
    s = p->forecasts.size();
    t = p->table.targets;
    h = p->forecasts.empty() ? 0 : p->forecasts.front().times.size();
  });
}

IngotStatus ingot_prediction_series(const IngotPrediction* prediction, size_t series, size_t target,
                                    IngotPredictedSeries* out, size_t size) {
  return call(__func__, [&] {
    const auto p = object_of(prediction);
    const SeriesForecast& one = p->at(series, target);
    const IngotPredictedSeries values{.id = one.id.c_str(),
                                      .target = p->table.column_names[target].c_str(),
                                      .times = p->time_pointers[series].data(),
                                      .values = one.values[target].data()};
    fill(out, size, values, "out");
  });
}

IngotStatus ingot_prediction_interval(const IngotPrediction* prediction, size_t series, size_t target,
                                      int32_t level, const double** low, const double** high) {
  return call(__func__, [&] {
    auto &below = result(low, "low"), &above = result(high, "high");
    const auto p = object_of(prediction);
    const SeriesForecast& one = p->at(series, target);
    const auto found = one.low.find(level);
    if (found == one.low.end())
      throw InvalidArgument("level",
                            fmt::format("is {}, which ingot_forecaster_predict() was not asked for", level));
    below = found->second[target].data();
    above = one.high.at(level)[target].data();
  });
}

IngotStatus ingot_prediction_csv(const IngotPrediction* prediction, char** text) {
  return call(__func__, [&] {
    auto& made = result(text, "text");
    const auto p = object_of(prediction);
    made = give_text(to_csv(p->forecasts, p->table));
  });
}

IngotStatus ingot_prediction_close(IngotPrediction* prediction) {
  return call(__func__, [&] { close_handle(prediction); });
}

IngotStatus ingot_forecaster_evaluate(IngotForecaster* forecaster, const IngotTable* table, int64_t stride,
                                      int64_t season, IngotEvaluation** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const Use<IngotForecaster> f(forecaster);
    made = open_handle(std::make_shared<IngotEvaluation>(
        evaluate(f->forecaster, f->read(table), {.stride = stride, .season = season})));
  });
}

IngotStatus ingot_evaluation_size(const IngotEvaluation* evaluation, size_t* methods, int64_t* windows,
                                  const char** verdict) {
  return call(__func__, [&] {
    auto& m = result(methods, "methods");
    auto& w = result(windows, "windows");
    auto& v = result(verdict, "verdict");
    const auto e = object_of(evaluation);
    m = e->evaluation.methods.size();
    w = e->evaluation.windows;
    v = e->evaluation.verdict.c_str();
  });
}

IngotStatus ingot_evaluation_method(const IngotEvaluation* evaluation, size_t index,
                                    IngotForecastMetrics* metrics, size_t size) {
  return call(__func__, [&] {
    const auto e = object_of(evaluation);
    const auto& all = e->evaluation.methods;
    if (index >= all.size())
      throw InvalidArgument("index", fmt::format("is {}; there are {}", index, all.size()));
    const Metrics& one = all[index];
    const IngotForecastMetrics values{.method = one.method.c_str(),
                                      .mse = one.mse,
                                      .mae = one.mae,
                                      .mase = one.mase,
                                      .smape = one.smape,
                                      .seconds = one.seconds};
    fill(metrics, size, values, "metrics");
  });
}

IngotStatus ingot_evaluation_close(IngotEvaluation* evaluation) {
  return call(__func__, [&] { close_handle(evaluation); });
}

}  // extern "C"
