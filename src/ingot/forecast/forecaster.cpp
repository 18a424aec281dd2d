#include "ingot/forecast/forecaster.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/parallel.h"
#include "ingot/forecast/batch_upload.h"
#include "ingot/forecast/fit_checkpoint.h"
#include "ingot/forecast/table/future_columns.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot::forecast {
namespace {

constexpr std::int64_t kLevels = 99;

// Every |error|, as [targets][horizon][windows]; infinite where the value was made up.
std::vector<float> absolute_errors(const ForecastModel& model, const WindowSet& windows) {
  const NoGrad no_grad;
  const std::int64_t n = windows.size(), cells = windows.targets() * windows.horizon();
  std::vector<float> errors(static_cast<std::size_t>(n * cells));
  BatchUpload upload(model.device());
  windows.for_each_batch([&](std::int64_t first, const Batch& batch) {
    const Tensor y = to(contiguous(slice(model(upload.send(batch).input), 1, 0, windows.targets())), kCpu);
    for (std::int64_t i = 0; i < y.dim(0); ++i) {
      for (std::int64_t c = 0; c < cells; ++c) {
        const bool measured = !batch.measured.defined() || batch.measured.data<float>()[i * cells + c] != 0;
        errors[static_cast<std::size_t>(c * n + first + i)] =
            measured ? std::abs(y.data<float>()[i * cells + c] - batch.target.data<float>()[i * cells + c])
                     : std::numeric_limits<float>::infinity();
      }
    }
  });
  return errors;
}

// The value that a column had in all measured rows before `origin`; nothing where it changed. Its scale is no
// measure of how far it moves, so what a network learnt from other series says nothing about it.
std::optional<double> constant_before(const Series& series, std::size_t column, std::int64_t origin) {
  std::optional<double> value;
  for (std::size_t row = 0; row < static_cast<std::size_t>(origin); ++row) {
    if (!series.measured(column, row)) continue;
    const double own = series.columns[column][row];
    if (value && *value != own) return std::nullopt;
    value = own;
  }
  return value;
}

// A column that never changed goes on so, whatever moves others; what it may be instead nobody knows.
void keep_constants(const Series& series, std::int64_t origin, SeriesForecast& forecast) {
  for (std::size_t t = 0; t < forecast.values.size(); ++t) {
    const std::optional<double> value = constant_before(series, t, origin);
    if (!value) continue;
    std::ranges::fill(forecast.values[t], *value);
    for (auto* ends : {&forecast.low, &forecast.high}) {
      for (auto& [level, columns] : *ends) std::ranges::fill(columns[t], *value);
    }
  }
}

void add_intervals(const Calibration& calibration, int level, const ColumnScales& scales,
                   SeriesForecast& forecast) {
  auto &low = forecast.low[level], &high = forecast.high[level];
  low = high = forecast.values;
  for (std::size_t c = 0; c < forecast.values.size(); ++c) {
    for (std::size_t h = 0; h < forecast.values[c].size(); ++h) {
      const double half =
          scales.scale[c] * static_cast<double>(calibration.half_width(level, static_cast<std::int64_t>(c),
                                                                       static_cast<std::int64_t>(h)));
      low[c][h] -= half;
      high[c][h] += half;
    }
  }
}

}  // namespace

float Calibration::half_width(int level, std::int64_t target, std::int64_t step) const {
  const std::int64_t targets = quantiles.dim(1), horizon = quantiles.dim(2);
  return quantiles.data<float>()[((level - 1) * targets + target) * horizon + step];
}

int Calibration::highest_level() const {
  if (!quantiles.defined()) return 0;
  return static_cast<int>(std::min(kLevels, 100 * windows / (windows + 1)));
}

std::vector<int> Calibration::usual_levels() const {
  std::vector<int> levels{80, 90};
  std::erase_if(levels, [&](int level) { return level > highest_level(); });
  return levels;
}

std::string Calibration::missing_levels() const {
  const std::vector<int> usual = usual_levels();
  if (!quantiles.defined() || usual.size() == 2) return "";
  return fmt::format("No interval of {} %: {} validation windows tell intervals of up to {} %.",
                     usual.empty() ? "80 or 90" : "90", windows, highest_level());
}

Calibration calibrate(const ForecastModel& model, const WindowSet& windows) {
  const std::int64_t all = windows.size(), cells = windows.targets() * windows.horizon();
  if (all == 0) return {};
  std::vector<float> errors = absolute_errors(model, windows);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(cells));
  for (std::int64_t c = 0; c < cells; ++c) {
    counts[static_cast<std::size_t>(c)] =
        std::count_if(errors.begin() + c * all, errors.begin() + (c + 1) * all,
                      [](float error) { return std::isfinite(error); });
  }
  Calibration calibration;
  calibration.windows = std::ranges::min(counts);
  if (calibration.windows == 0) return calibration;
  calibration.quantiles = Tensor::empty({kLevels, windows.targets(), windows.horizon()});
  float* out = calibration.quantiles.data<float>();
  parallel_for(cells, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      const auto first = errors.begin() + c * all;
      const std::int64_t n = counts[static_cast<std::size_t>(c)];
      std::sort(first, first + all);
      for (std::int64_t level = 1; level <= kLevels; ++level) {
        const std::int64_t rank = std::min(n, ((n + 1) * level + 99) / 100);
        out[(level - 1) * cells + c] = first[rank - 1];
      }
    }
  });
  return calibration;
}

void Forecaster::check(const SeriesTable& table) const {
  INGOT_CHECK(static_cast<std::int64_t>(table.future_names.size()) == config.model.future_inputs,
              DataError(table.source, 1, "",
                        fmt::format("gives {} inputs that are known ahead ({}), the model reads {}",
                                    table.future_names.size(), fmt::join(table.future_names, ", "),
                                    config.model.future_inputs)));
  if (column_names.empty()) {
    INGOT_CHECK(
        static_cast<std::int64_t>(table.column_names.size()) == config.model.channels,
        DataError(
            table.source, 1, "",
            fmt::format(
                "has {} columns of values, the model reads {}; give it just those, in the order of its fit",
                table.column_names.size(), config.model.channels)));
    return;
  }
  INGOT_CHECK(table.column_names == column_names,
              DataError(table.source, 1, "",
                        fmt::format("has the columns {}, the model was fitted on {}",
                                    fmt::join(table.column_names, ", "), fmt::join(column_names, ", "))));
  INGOT_CHECK(table.frequency == frequency,
              DataError(table.source, 0, "",
                        fmt::format("has one row per {}, the model was fitted on one per {}",
                                    table.frequency.name(), frequency.name())));
}

void Forecaster::check_levels(const std::vector<int>& levels) const {
  INGOT_CHECK(
      levels.empty() || calibration.quantiles.defined(),
      InvalidConfig(
          "level", "the model is not calibrated, so there are no intervals; fit it with ingot forecast fit"));
  for (const int level : levels) {
    if (level == 0) continue;  // the median, which is the forecast
    INGOT_CHECK(level >= 1 && level <= kLevels,
                InvalidConfig("level", fmt::format("is {}, expected per cent from 1 to 99", level)));
    INGOT_CHECK(level <= calibration.highest_level(),
                InvalidConfig("level", fmt::format("is {}, but the model was calibrated on {} windows, which "
                                                   "tell intervals of up to {} %; fit with a longer "
                                                   "validation part for wider ones",
                                                   level, calibration.windows, calibration.highest_level())));
  }
}

TableOptions Forecaster::table_options() const {
  TableOptions options = config.table;
  options.targets.assign(column_names.begin(), column_names.begin() + static_cast<std::ptrdiff_t>(targets));
  options.columns = column_names;
  // A few days of a new table need not show whether weekends belong to them.
  if (frequency == parse_frequency("D") || frequency == parse_frequency("B")) {
    options.frequency = frequency.name();
  }
  return options;
}

ColumnScales Forecaster::scales_of(const Series& series, const SeriesTable& table) const {
  const auto found = scales.find(series.id);
  if (found != scales.end()) return found->second;
  return fit_scales(config.scaler, series, static_cast<std::int64_t>(series.length()), table,
                    ConstantColumns::unit_scale);
}

Forecaster fit_forecaster(FitConfig given, const SeriesTable& table, const FitHooks& hooks,
                          const FitSaving& saving) {
  FitResult result = fit(std::move(given), table, hooks, saving);
  Forecaster f;
  f.config = std::move(result.config);
  f.model = std::move(result.model);
  f.epochs = std::move(result.epochs);
  f.best_epoch = result.best_epoch;
  f.end = result.end;
  f.metadata = std::move(result.metadata);
  if (f.end != TrainEnd::stopped) f.fit_digest = fit_digest(f.config, table);
  f.column_names = table.column_names;
  f.targets = table.targets;
  f.frequency = table.frequency;
  const DataSplit parts =
      split_windows(table, f.config.split, f.config.scaler, f.config.model.lookback, f.config.model.horizon);
  for (const auto& series : parts.series) f.scales[series->id] = series->scales;
  if (hooks.ranks == nullptr || hooks.ranks->is_first())  // which alone writes what was fitted
    f.calibration = calibrate(*f.model, parts.validation);
  if (!f.config.refit || f.end == TrainEnd::stopped) return f;
  if (auto model = fit_all_rows(f.config, f.best_epoch, table, f.scales, hooks)) {
    f.model = std::move(model);
  } else {
    f.end = TrainEnd::stopped;
    f.config.refit = false;
  }
  return f;
}

SeriesForecast predict_at(const Forecaster& f, const SeriesTable& table, const Series& series,
                          std::int64_t origin, const std::vector<int>& levels) {
  const NoGrad no_grad;
  f.check_levels(levels);
  const ForecastModelConfig& c = f.config.model;
  INGOT_CHECK(
      origin >= c.lookback,
      DataError(
          table.source, 0, "",
          fmt::format("{} has {} rows up to the forecast, the model reads {}; give it those, or fit a "
                      "model with a smaller --lookback",
                      series.id.empty() ? "the table" : "series '" + series.id + "'", origin, c.lookback)));
  check_known_ahead(table, series, origin, c.horizon);
  // The look-back alone is scaled, with dates that go on over the horizon.
  Series window{.id = series.id};
  for (std::int64_t i = -c.lookback; i < c.horizon; ++i) {
    window.times.push_back(
        table.frequency.advance(series.times[static_cast<std::size_t>(origin - 1)], i + 1, series.month_day));
  }
  for (const std::vector<double>& column : series.columns) {
    window.columns.emplace_back(column.begin() + (origin - c.lookback), column.begin() + origin);
    window.columns.back().resize(window.times.size());
  }
  for (const std::vector<double>& input : series.future) {
    window.future.emplace_back(input.begin() + (origin - c.lookback), input.begin() + (origin + c.horizon));
  }
  const auto values =
      std::make_shared<const ScaledSeries>(scaled(window, f.scales_of(series, table), f.frequency));
  WindowSet one(c.lookback, c.horizon, static_cast<std::int64_t>(table.targets));
  one.add(values, 0, c.lookback + c.horizon);
  ForecastInput input = one.batch(std::vector<std::int64_t>{0}).input;
  if (c.time_features == 0) input.past_marks = input.future_marks = {};
  for (Tensor* part :
       {&input.x, &input.past_marks, &input.future_marks, &input.past_inputs, &input.future_inputs})
    if (part->defined()) *part = to(*part, f.model->device());
  const Tensor y = contiguous(to((*f.model)(input), kCpu));
  SeriesForecast forecast{.id = series.id};
  forecast.times.assign(window.times.end() - c.horizon, window.times.end());
  for (std::size_t t = 0; t < table.targets; ++t) {
    auto& column = forecast.values.emplace_back();
    const float* from = y.data<float>() + static_cast<std::int64_t>(t) * c.horizon;
    for (std::int64_t h = 0; h < c.horizon; ++h) {
      column.push_back(static_cast<double>(from[h]) * values->scales.scale[t] + values->scales.shift[t]);
    }
  }
  for (const int level : levels) {
    if (level > 0) add_intervals(f.calibration, level, values->scales, forecast);
  }
  keep_constants(series, origin, forecast);
  return forecast;
}

std::vector<SeriesForecast> predict(const Forecaster& f, const SeriesTable& table,
                                    const std::vector<int>& levels) {
  f.check(table);
  std::vector<SeriesForecast> forecasts;
  const auto rows = [](const Series& series) { return static_cast<std::int64_t>(series.length()); };
  for (const Series& series : table.series) {
    if (rows(series) < f.config.model.lookback || !known_ahead(series, f.config.model.horizon)) continue;
    forecasts.push_back(predict_at(f, table, series, rows(series), levels));
  }
  if (forecasts.empty()) {  // says what is missing
    const Series& longest = *std::ranges::max_element(table.series, {}, &Series::length);
    forecasts.push_back(predict_at(f, table, longest, rows(longest), levels));
  }
  return forecasts;
}

}  // namespace ingot::forecast
