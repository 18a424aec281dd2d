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
#include "ingot/forecast/forecast_text.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot::forecast {
namespace {

// One target of one series, and what its errors are measured against.
struct Column {
  const Series* series;
  std::size_t index;  // of the column
  std::int64_t target;
  double shift, scale;
  std::int64_t season;
  double naive_error;        // mean |x[t] - x[t - season]| over the training part
  std::int64_t first, last;  // origins
};

// Over the first `rows` rows.
double seasonal_error(const Series& series, std::size_t column, std::int64_t rows, std::int64_t season) {
  const std::vector<double>& x = series.columns[column];
  const auto lag = static_cast<std::size_t>(season);
  double sum = 0, count = 0;
  for (std::size_t i = lag; i < static_cast<std::size_t>(rows); ++i) {
    if (!series.measured(column, i) || !series.measured(column, i - lag)) continue;
    sum += std::abs(x[i] - x[i - lag]);
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

// What errors of one method add up to, where there is a measured value to err from.
struct Sums {
  double squares = 0, absolute = 0, relative = 0, symmetric = 0, count = 0;
  double relative_count = 0;  // of the columns that the seasonal naive forecast errs on
  std::map<int, double> inside;
  std::vector<double> by_step, count_by_step;

  void merge(const Sums& o) {
    squares += o.squares;
    absolute += o.absolute;
    relative += o.relative;
    relative_count += o.relative_count;
    symmetric += o.symmetric;
    count += o.count;
    for (const auto& [level, n] : o.inside) inside[level] += n;
    for (std::size_t h = 0; h < by_step.size(); ++h) {
      by_step[h] += o.by_step[h];
      count_by_step[h] += o.count_by_step[h];
    }
  }
  /// `actual` and `forecast` in the table's units.
  void add(const Column& c, std::size_t step, double actual, double forecast) {
    const double error = std::abs(actual - forecast), scaled = error / c.scale;
    squares += scaled * scaled;
    absolute += scaled;
    by_step[step] += scaled;
    ++count_by_step[step];
    if (c.naive_error > 0) {
      relative += error / c.naive_error;
      relative_count += 1;
    }
    const double size = std::abs(actual) + std::abs(forecast);
    if (size > 0) symmetric += 200 * error / size;
    count += 1;
  }
  Metrics metrics(std::string method, double seconds) const {
    Metrics m{.method = std::move(method),
              .mse = squares / count,
              .mae = absolute / count,
              .mase = relative / relative_count,
              .smape = symmetric / count,
              .coverage = {},
              .seconds = seconds,
              .mae_by_step = by_step};
    for (const auto& [level, n] : inside) m.coverage[level] = 100 * n / count;
    for (std::size_t h = 0; h < by_step.size(); ++h) m.mae_by_step[h] /= count_by_step[h];
    return m;
  }
};

struct Evaluator {
  const Forecaster& f;
  const SeriesTable& table;
  const EvaluateOptions& options;
  std::vector<int> levels;
  std::int64_t season, horizon;
  std::vector<std::shared_ptr<const ScaledSeries>> scaled_series;
  std::vector<Borders> borders;
  WindowSet windows;
  std::vector<Column> columns;
  std::vector<std::string> skipped, short_series, periodic;  // ids; names of columns

  void prepare();
  std::int64_t made_up_values() const;
  std::vector<std::string> notes() const;
  Sums network() const;
  Sums baseline(const std::function<std::unique_ptr<Baseline>(const Column&, const Borders&)>& make) const;
  Sums empty() const {
    Sums s;
    s.by_step.resize(static_cast<std::size_t>(horizon));
    s.count_by_step.resize(s.by_step.size());
    return s;
  }
};

Borders test_borders(const SplitOptions& split, const Series& series, const SeriesTable& table,
                     std::int64_t test_rows) {
  if (test_rows == 0) return borders_of(split, series, table);
  const auto rows = static_cast<std::int64_t>(series.length());
  const std::int64_t origin = std::max<std::int64_t>(0, rows - test_rows);
  return {origin, origin, rows};
}

void Evaluator::prepare() {
  const std::int64_t lookback = f.config.model.lookback;
  for (const Series& series : table.series) {
    const Borders b = test_borders(f.config.split, series, table, options.test_rows);
    borders.push_back(b);
    scaled_series.push_back(
        std::make_shared<const ScaledSeries>(scaled(series, f.scales_of(series, table), table.frequency)));
    const std::int64_t first = std::max(b.validation, lookback);
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
      // What rounding leaves of an exact repetition is no error either.
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
  for (const Column& c : columns) {
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

Sums Evaluator::network() const {
  const NoGrad no_grad;
  Sums sums = empty();
  const auto targets = static_cast<std::int64_t>(table.targets);
  std::map<const ScaledSeries*, const Column*> first_column;
  for (std::size_t s = 0, c = 0; c < columns.size(); c += table.targets, ++s) {
    while (&table.series[s] != columns[c].series) ++s;
    first_column[scaled_series[s].get()] = &columns[c];
  }
  BatchUpload upload(f.model->device());
  windows.for_each_batch([&](std::int64_t first, const Batch& batch) {
    const Tensor y = to(contiguous(slice((*f.model)(upload.send(batch).input), 1, 0, targets)), kCpu);
    for (std::int64_t i = 0; i < y.dim(0); ++i) {
      const WindowSet::Place place = windows.at(first + i);
      const std::int64_t origin = place.first + windows.lookback();
      for (std::int64_t t = 0; t < targets; ++t) {
        const Column& c = first_column.at(place.series)[t];
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

Sums Evaluator::baseline(
    const std::function<std::unique_ptr<Baseline>(const Column&, const Borders&)>& make) const {
  std::vector<Sums> parts(columns.size(), empty());
  parallel_for(static_cast<std::int64_t>(columns.size()), 1, [&](std::int64_t from, std::int64_t to) {
    std::vector<double> out(static_cast<std::size_t>(horizon));
    for (std::int64_t i = from; i < to; ++i) {
      const Column& c = columns[static_cast<std::size_t>(i)];
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
  Sums sums = empty();
  for (const Sums& part : parts) sums.merge(part);
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

Evaluation evaluate(const Forecaster& f, const SeriesTable& table, const EvaluateOptions& options) {
  f.check(table);
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
              .short_series = {},
              .periodic = {}};
  e.prepare();
  const bool none_holds_it = e.short_series.size() + e.skipped.size() == table.series.size();
  Evaluation result{.windows = e.windows.size(),
                    .season = none_holds_it ? 1 : e.season,
                    .methods = {},
                    .skipped = e.skipped,
                    .notes = e.notes()};
  Stopwatch watch;
  const Sums network = e.network();
  INGOT_CHECK(network.count > 0, DataError(table.source, 0, "",
                                           "has no value of what is forecast in its test part, so there is "
                                           "nothing to measure errors against"));
  result.methods.push_back(network.metrics(model.model, watch.seconds()));
  const auto add = [&](const char* name, const auto& make) {
    watch.restart();
    const Sums sums = e.baseline(make);
    result.methods.push_back(sums.metrics(name, watch.seconds()));
  };
  add("naive", [](const Column& c, const Borders&) { return naive(c.series->columns[c.index]); });
  add("seasonal naive",
      [](const Column& c, const Borders&) { return seasonal_naive(c.series->columns[c.index], c.season); });
  add("ETS",
      [](const Column& c, const Borders& b) { return ets(c.series->columns[c.index], b.train, c.season); });
  return result;
}

}  // namespace ingot::forecast
