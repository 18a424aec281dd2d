#include "ingot/forecast/evaluate.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/parallel.h"
#include "ingot/base/stopwatch.h"
#include "ingot/forecast/baselines.h"
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
  double naive_error;        // mean |x[t] - x[t - season]| over the training part
  std::int64_t first, last;  // origins
};

// What errors of one method add up to.
struct Sums {
  double squares = 0, absolute = 0, relative = 0, symmetric = 0, count = 0;
  std::map<int, double> inside;
  std::vector<double> by_step;

  void merge(const Sums& o) {
    squares += o.squares;
    absolute += o.absolute;
    relative += o.relative;
    symmetric += o.symmetric;
    count += o.count;
    for (const auto& [level, n] : o.inside) inside[level] += n;
    for (std::size_t h = 0; h < by_step.size(); ++h) by_step[h] += o.by_step[h];
  }
  /// `actual` and `forecast` in the table's units.
  void add(const Column& c, std::size_t step, double actual, double forecast) {
    const double error = std::abs(actual - forecast), scaled = error / c.scale;
    squares += scaled * scaled;
    absolute += scaled;
    by_step[step] += scaled;
    if (c.naive_error > 0) relative += error / c.naive_error;
    const double size = std::abs(actual) + std::abs(forecast);
    if (size > 0) symmetric += 200 * error / size;
    count += 1;
  }
  Metrics metrics(std::string method, double seconds) const {
    Metrics m{.method = std::move(method),
              .mse = squares / count,
              .mae = absolute / count,
              .mase = relative / count,
              .smape = symmetric / count,
              .coverage = {},
              .seconds = seconds};
    for (const auto& [level, n] : inside) m.coverage[level] = 100 * n / count;
    return m;
  }
};

struct Evaluator {
  const Forecaster& f;
  const SeriesTable& table;
  const EvaluateOptions& options;
  std::int64_t season, horizon;
  std::vector<std::shared_ptr<const ScaledSeries>> scaled_series;
  std::vector<Borders> borders;
  WindowSet windows;
  std::vector<Column> columns;

  void prepare();
  Sums network() const;
  Sums baseline(const std::function<std::unique_ptr<Baseline>(const Column&, const Borders&)>& make) const;
  Sums empty() const {
    Sums s;
    s.by_step.resize(static_cast<std::size_t>(horizon));
    return s;
  }
};

void Evaluator::prepare() {
  const std::int64_t lookback = f.config.model.lookback;
  for (const Series& series : table.series) {
    const Borders b = borders_of(f.config.split, series, table);
    borders.push_back(b);
    INGOT_CHECK(options.season < b.train,
                InvalidConfig(
                    "season",
                    fmt::format("must be below the {} rows of the training part{}, got {}", b.train,
                                series.id.empty() ? "" : " of series '" + series.id + "'", options.season)));
    scaled_series.push_back(
        std::make_shared<const ScaledSeries>(scaled(series, f.scales_of(series, table), table.frequency)));
    const std::int64_t first = std::max(b.validation, lookback);
    const std::int64_t count = windows.add(scaled_series.back(), first - lookback, b.test, options.stride);
    const ColumnScales& scales = scaled_series.back()->scales;
    for (std::size_t t = 0; t < table.targets && count > 0; ++t) {
      const std::vector<double>& x = series.columns[t];
      double sum = 0;
      for (std::int64_t i = season; i < b.train; ++i) {
        sum += std::abs(x[static_cast<std::size_t>(i)] - x[static_cast<std::size_t>(i - season)]);
      }
      columns.push_back({&series, t, static_cast<std::int64_t>(t), scales.shift[t], scales.scale[t],
                         b.train > season ? sum / static_cast<double>(b.train - season) : 0, first,
                         b.test - horizon});
    }
  }
  INGOT_CHECK(
      windows.size() > 0,
      DataError(
          table.source, 0, "",
          fmt::format("no test window of look-back {} and horizon {} fits; a larger test fraction is needed",
                      lookback, horizon)));
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
  windows.for_each_batch([&](std::int64_t first, const Batch& batch) {
    const Tensor y = contiguous(slice((*f.model)(batch.input), 1, 0, targets));
    for (std::int64_t i = 0; i < y.dim(0); ++i) {
      const WindowSet::Place place = windows.at(first + i);
      const std::int64_t origin = place.first + windows.lookback();
      for (std::int64_t t = 0; t < targets; ++t) {
        const Column& c = first_column.at(place.series)[t];
        const float* row = y.data<float>() + (i * targets + t) * horizon;
        for (std::int64_t h = 0; h < horizon; ++h) {
          const double actual = c.series->columns[c.index][static_cast<std::size_t>(origin + h)];
          const double forecast = static_cast<double>(row[h]) * c.scale + c.shift;
          sums.add(c, static_cast<std::size_t>(h), actual, forecast);
          if (!f.calibration.quantiles.defined()) continue;
          for (const int level : options.levels) {
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
          parts[static_cast<std::size_t>(i)].add(
              c, h, c.series->columns[c.index][static_cast<std::size_t>(origin) + h], out[h]);
        }
      }
    }
  });
  Sums sums = empty();
  for (const Sums& part : parts) sums.merge(part);
  return sums;
}

}  // namespace

Evaluation evaluate(const Forecaster& f, const SeriesTable& table, const EvaluateOptions& options) {
  f.check(table);
  INGOT_CHECK(options.stride >= 1,
              InvalidConfig("stride", fmt::format("must be at least 1, got {}", options.stride)));
  INGOT_CHECK(options.season >= 0,
              InvalidConfig("season", fmt::format("must be at least 0, got {}", options.season)));
  const ForecastModelConfig& model = f.config.model;
  Evaluator e{.f = f,
              .table = table,
              .options = options,
              .season = options.season > 0 ? options.season : table.frequency.season(),
              .horizon = model.horizon,
              .scaled_series = {},
              .borders = {},
              .windows = WindowSet(model.lookback, model.horizon, static_cast<std::int64_t>(table.targets)),
              .columns = {}};
  e.prepare();
  Evaluation result{.windows = e.windows.size(),
                    .season = e.season,
                    .methods = {},
                    .mae_by_step = {},
                    .naive_mae_by_step = {}};
  const auto per_step = [&](const Sums& s) {
    std::vector<double> mean = s.by_step;
    for (double& v : mean) v *= static_cast<double>(e.horizon) / s.count;
    return mean;
  };
  Stopwatch watch;
  const Sums network = e.network();
  result.methods.push_back(network.metrics(model.model, watch.seconds()));
  result.mae_by_step = per_step(network);
  const auto add = [&](const char* name, const auto& make) {
    watch.restart();
    const Sums sums = e.baseline(make);
    result.methods.push_back(sums.metrics(name, watch.seconds()));
    return sums;
  };
  add("naive", [](const Column& c, const Borders&) { return naive(c.series->columns[c.index]); });
  const Sums seasonal = add("seasonal naive", [&](const Column& c, const Borders&) {
    return seasonal_naive(c.series->columns[c.index], e.season);
  });
  result.naive_mae_by_step = per_step(seasonal);
  add("ETS",
      [&](const Column& c, const Borders& b) { return ets(c.series->columns[c.index], b.train, e.season); });
  return result;
}

}  // namespace ingot::forecast
