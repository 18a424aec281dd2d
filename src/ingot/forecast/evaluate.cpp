#include "ingot/forecast/evaluate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/parallel.h"
#include "ingot/base/stopwatch.h"
#include "ingot/forecast/baselines.h"
#include "ingot/forecast/batch_upload.h"
#include "ingot/forecast/error_sums.h"
#include "ingot/forecast/forecast_text.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot::forecast {
namespace {

struct Evaluator {
  const Forecaster& f;
  const SeriesTable& table;
  const EvaluateOptions& options;
  std::vector<int> levels;
  std::int64_t season, horizon;
  std::vector<std::shared_ptr<const ScaledSeries>> scaled_series;
  std::vector<Borders> borders;
  WindowSet windows;
  std::vector<ErrorColumn> columns;
  std::vector<std::string> skipped, constant, short_series, periodic;  // ids; names of columns

  void prepare();
  std::int64_t made_up_values() const;
  std::vector<std::string> notes() const;
  ErrorSums network() const;
  ErrorSums baseline(
      const std::function<std::unique_ptr<Baseline>(const ErrorColumn&, const Borders&)>& make) const;
};

// Nothing scales the errors of a series that never changed before its test part and was left out of the fit.
bool is_unfitted_constant(const Forecaster& f, const SeriesTable& table, const Series& series,
                          std::int64_t rows) {
  if (f.scales.contains(series.id) || f.scales.empty() || f.config.scaler == ScalerKind::none) return false;
  for (std::size_t t = 0; t < table.targets; ++t) {
    if (scaling_problem(f.config.scaler, series, t, rows).empty()) return false;
  }
  return true;
}

void Evaluator::prepare() {
  const std::int64_t lookback = f.config.model.lookback;
  for (const Series& series : table.series) {
    const Borders b = test_borders(f.config.split, series, table, options.test_rows);
    borders.push_back(b);
    if (is_unfitted_constant(f, table, series, b.train)) {
      constant.push_back(series.id);
      scaled_series.push_back(nullptr);
      continue;
    }
    scaled_series.push_back(
        std::make_shared<const ScaledSeries>(scaled(series, f.scales_of(series, table), table.frequency)));
    const std::int64_t first = std::max({b.validation, lookback, options.first_row});
    const std::int64_t end = options.windows == 0 || options.windows > (b.test - first) / options.stride
                                 ? b.test
                                 : std::min(b.test, first + (options.windows - 1) * options.stride + horizon);
    if (windows.add(scaled_series.back(), first - lookback, end, options.stride) == 0) {
      skipped.push_back(series.id);
      continue;
    }
    const std::int64_t own_season = season < b.train ? season : 1;
    if (own_season != season) short_series.push_back(series.id);
    const ColumnScales& scales = scaled_series.back()->scales;
    for (std::size_t t = 0; t < table.targets; ++t) {
      // What rounding leaves of an exact repetition is not an error either.
      const double found = seasonal_error(series, t, b.train, own_season);
      const double error = found > 1e-12 * scales.scale[t] ? found : 0;
      if (error == 0) {
        periodic.push_back(series.id.empty() ? table.column_names[t]
                                             : series.id + " " + table.column_names[t]);
      }
      columns.push_back({&series, t, static_cast<std::int64_t>(t), scales.shift[t], scales.scale[t],
                         own_season, error, first, end - horizon});
    }
  }
  INGOT_CHECK(
      windows.size() > 0,
      DataError(
          table.source, 0, "",
          fmt::format("no test window of look-back {} and horizon {} fits; a larger test fraction is needed",
                      lookback, horizon)));
}

// Of the rows that are forecast.
std::int64_t Evaluator::made_up_values() const {
  std::int64_t count = 0;
  for (const ErrorColumn& c : columns) {
    for (std::int64_t row = c.first; row < c.last + horizon; ++row) {
      count += c.series->measured(c.index, static_cast<std::size_t>(row)) ? 0 : 1;
    }
  }
  return count;
}

std::vector<std::string> Evaluator::notes() const {
  std::vector<std::string> notes;
  if (const std::string note = f.calibration.missing_levels(); !options.levels && !note.empty()) {
    notes.push_back(note);
  }
  if (const std::int64_t made_up = made_up_values(); made_up > 0) {
    notes.push_back(
        fmt::format("{} values of the test part are missing. They were filled for forecasts to read, and "
                    "are not among the values that errors are measured on.",
                    made_up));
  }
  if (!skipped.empty()) {
    notes.push_back(fmt::format("Left out, as their test part is shorter than the horizon of {} rows: {}.",
                                horizon, list_of(skipped)));
  }
  if (!constant.empty()) {
    notes.push_back(
        fmt::format("Left out, as they are constant before their test part: {}.", list_of(constant)));
  }
  if (!short_series.empty()) {
    notes.push_back(fmt::format("The season of {} rows is longer than the training part{}; it is taken as 1.",
                                season, table.long_layout ? " of " + list_of(short_series) : ""));
  }
  if (!periodic.empty()) {
    notes.push_back(
        fmt::format("MASE is not defined where the seasonal naive forecast makes no error over the "
                    "training part, and leaves out: {}.",
                    list_of(periodic)));
  }
  return notes;
}

ErrorSums Evaluator::network() const {
  const NoGrad no_grad;
  ErrorSums sums = ErrorSums::of(horizon);
  const auto targets = static_cast<std::int64_t>(table.targets);
  std::map<const ScaledSeries*, const ErrorColumn*> first_column;
  for (std::size_t s = 0, c = 0; c < columns.size(); c += table.targets, ++s) {
    while (&table.series[s] != columns[c].series) ++s;
    first_column[scaled_series[s].get()] = &columns[c];
  }
  BatchUpload upload(f.model->device());
  windows.for_each_batch([&](std::int64_t first, const Batch& batch) {
    if (options.on_batch) options.on_batch();
    const Tensor y = to(contiguous(slice((*f.model)(upload.send(batch).input), 1, 0, targets)), kCpu);
    for (std::int64_t i = 0; i < y.dim(0); ++i) {
      const WindowSet::Position position = windows.at(first + i);
      const std::int64_t origin = position.first + windows.lookback();
      for (std::int64_t t = 0; t < targets; ++t) {
        const ErrorColumn& c = first_column.at(position.series)[t];
        const float* row = y.data<float>() + (i * targets + t) * horizon;
        for (std::int64_t h = 0; h < horizon; ++h) {
          const auto row_of_actual = static_cast<std::size_t>(origin + h);
          if (!c.series->measured(c.index, row_of_actual)) continue;
          const double actual = c.series->columns[c.index][row_of_actual];
          const double forecast = static_cast<double>(row[h]) * c.scale + c.shift;
          sums.add(c, static_cast<std::size_t>(h), actual, forecast);
          for (const int level : levels) {
            const double half = c.scale * static_cast<double>(f.calibration.half_width(level, t, h));
            sums.inside[level] += std::abs(actual - forecast) <= half ? 1 : 0;
          }
        }
      }
    }
  });
  return sums;
}

ErrorSums Evaluator::baseline(
    const std::function<std::unique_ptr<Baseline>(const ErrorColumn&, const Borders&)>& make) const {
  std::vector<ErrorSums> parts(columns.size(), ErrorSums::of(horizon));
  parallel_for(static_cast<std::int64_t>(columns.size()), 1, [&](std::int64_t from, std::int64_t to) {
    std::vector<double> out(static_cast<std::size_t>(horizon));
    for (std::int64_t i = from; i < to; ++i) {
      const ErrorColumn& c = columns[static_cast<std::size_t>(i)];
      const auto baseline = make(c, borders[static_cast<std::size_t>(c.series - table.series.data())]);
      for (std::int64_t origin = c.first; origin <= c.last; origin += options.stride) {
        baseline->forecast(origin, out);
        for (std::size_t h = 0; h < out.size(); ++h) {
          const std::size_t row = static_cast<std::size_t>(origin) + h;
          if (!c.series->measured(c.index, row)) continue;
          parts[static_cast<std::size_t>(i)].add(c, h, c.series->columns[c.index][row], out[h]);
        }
      }
    }
  });
  ErrorSums sums = ErrorSums::of(horizon);
  for (const ErrorSums& part : parts) sums.merge(part);
  return sums;
}

}  // namespace

void check_evaluation(const SplitOptions& split, const SeriesTable& table, const EvaluateOptions& options) {
  INGOT_CHECK(options.stride >= 1,
              InvalidConfig("stride", fmt::format("must be at least 1, got {}", options.stride)));
  INGOT_CHECK(options.windows >= 0,
              InvalidConfig("windows", fmt::format("must be at least 0, got {}", options.windows)));
  INGOT_CHECK(options.season >= 0,
              InvalidConfig("season", fmt::format("must be at least 0, got {}", options.season)));
  for (const Series& series : table.series) {
    const std::int64_t train = test_borders(split, series, table, options.test_rows).train;
    INGOT_CHECK(
        options.season < train || options.season == 0,
        InvalidConfig("season", fmt::format("must be below the {} rows of the training part{}, got {}", train,
                                            series.id.empty() ? "" : " of series '" + series.id + "'",
                                            options.season)));
  }
}

std::string verdict(const std::vector<Metrics>& methods) {
  const auto error = [](const Metrics& m) { return std::isnan(m.mase) ? m.mae : m.mase; };
  const auto best = std::ranges::min_element(methods, {}, error);
  if (best == methods.begin() || !(error(*best) < error(methods[0]))) return "";
  return fmt::format("{} does better here than {}: {} {:.3f} against {:.3f}.", best->method,
                     methods[0].method, std::isnan(best->mase) ? "MAE" : "MASE", error(*best),
                     error(methods[0]));
}

Evaluation evaluate(const Forecaster& f, const SeriesTable& table, const EvaluateOptions& options) {
  f.check(table);
  INGOT_CHECK(!f.config.refit || options.test_rows > 0,
              InvalidConfig("folds",
                            "the model was fitted to all rows, so its test part says nothing of it; "
                            "cross-validate it with --folds"));
  check_evaluation(f.config.split, table, options);
  const std::vector<int> levels = options.levels.value_or(f.calibration.usual_levels());
  f.check_levels(levels);
  const ForecastModelConfig& model = f.config.model;
  Evaluator e{.f = f,
              .table = table,
              .options = options,
              .levels = levels,
              .season = options.season > 0 ? options.season : table.frequency.season(),
              .horizon = model.horizon,
              .scaled_series = {},
              .borders = {},
              .windows = WindowSet(model.lookback, model.horizon, static_cast<std::int64_t>(table.targets)),
              .columns = {},
              .skipped = {},
              .constant = {},
              .short_series = {},
              .periodic = {}};
  e.prepare();
  const std::vector<std::string> notes = e.notes();
  e.skipped.insert(e.skipped.end(), e.constant.begin(), e.constant.end());
  const bool none_holds_it = e.short_series.size() + e.skipped.size() == table.series.size();
  Evaluation result{.windows = e.windows.size(),
                    .season = none_holds_it ? 1 : e.season,
                    .methods = {},
                    .skipped = e.skipped,
                    .notes = notes,
                    .verdict = {}};
  Stopwatch watch;
  const ErrorSums network = e.network();
  INGOT_CHECK(network.count > 0, DataError(table.source, 0, "",
                                           "has no value of what is forecast in its test part, so there is "
                                           "nothing to measure errors against"));
  result.methods.push_back(network.metrics(model.model, watch.seconds()));
  const auto add = [&](const char* name, const auto& make) {
    if (options.on_batch) options.on_batch();
    watch.restart();
    const ErrorSums sums = e.baseline(make);
    result.methods.push_back(sums.metrics(name, watch.seconds()));
  };
  add("naive", [](const ErrorColumn& c, const Borders&) { return naive(c.series->columns[c.index]); });
  add("seasonal naive", [](const ErrorColumn& c, const Borders&) {
    return seasonal_naive(c.series->columns[c.index], c.season);
  });
  add("ETS", [](const ErrorColumn& c, const Borders& b) {
    return ets(c.series->columns[c.index], b.train, c.season);
  });
  result.verdict = verdict(result.methods);
  return result;
}

}  // namespace ingot::forecast
