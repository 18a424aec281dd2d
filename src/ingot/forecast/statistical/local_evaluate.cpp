#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "ingot/base/parallel.h"
#include "ingot/base/stopwatch.h"
#include "ingot/forecast/error_sums.h"
#include "ingot/forecast/forecast_text.h"
#include "ingot/forecast/statistical/local_forecaster.h"

namespace ingot::forecast {
namespace {

// One forecast to be made: from a row of a column on.
struct LocalOrigin {
  const ErrorColumn* column;
  std::int64_t row;
};

struct LocalTest {
  std::vector<ErrorColumn> columns;
  std::vector<LocalOrigin> origins;
  std::vector<std::string> skipped;
};

void add_series(LocalTest& test, const LocalForecaster& f, const SeriesTable& table, const Series& series,
                const EvaluateOptions& options, std::int64_t season) {
  const Borders b = test_borders(f.split, series, table, options.test_rows);
  const std::int64_t first = std::max({b.validation, options.first_row, std::int64_t{1}}),
                     last = b.test - f.horizon;
  if (first > last) {
    test.skipped.push_back(series.id);
    return;
  }
  // As for networks: errors are over those of the training part.
  const std::int64_t train = std::max<std::int64_t>(b.train, 1);
  const ColumnScales scales = fit_scales(options.scaler, series, train, table, ConstantColumns::unit_scale);
  const std::int64_t own_season = season < train ? season : 1;
  for (std::size_t t = 0; t < table.targets; ++t) {
    test.columns.push_back({&series, t, static_cast<std::int64_t>(t), scales.shift[t], scales.scale[t],
                            own_season, seasonal_error(series, t, train, own_season), first, last});
  }
}

LocalForecast continued(LocalModel model, const LocalOrigin& from, const LocalForecaster& f, bool inputs) {
  const auto& [c, row] = from;
  if (inputs) return continue_column(model, *c->series, c->index, row, f.season, f.horizon);
  return model(std::span(c->series->columns[c->index]).first(static_cast<std::size_t>(row)), f.season,
               f.horizon);
}

// With inputs that are known ahead, or from the column's history alone.
ErrorSums errors_of(const std::string& name, const LocalTest& test, const LocalForecaster& f,
                    const std::vector<int>& levels, bool inputs) {
  const LocalModel model = local_model(name);
  const auto count = static_cast<std::int64_t>(test.origins.size());
  std::vector<ErrorSums> parts(test.origins.size(), ErrorSums::of(f.horizon));
  parallel_for(count, 1, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      const auto& [c, row] = test.origins[static_cast<std::size_t>(i)];
      const std::vector<double>& x = c->series->columns[c->index];
      const LocalForecast forecast = continued(model, {c, row}, f, inputs);
      ErrorSums& sums = parts[static_cast<std::size_t>(i)];
      for (std::size_t h = 0; h < forecast.mean.size(); ++h) {
        const std::size_t at = static_cast<std::size_t>(row) + h;
        if (!c->series->measured(c->index, at)) continue;
        sums.add(*c, h, x[at], forecast.mean[h]);
        for (const int level : levels) {
          const auto [low, high] = forecast.interval(level, h);
          sums.inside[level] += x[at] >= low && x[at] <= high ? 1 : 0;
        }
      }
    }
  });
  ErrorSums sums = ErrorSums::of(f.horizon);
  for (const ErrorSums& part : parts) sums.merge(part);
  return sums;
}

}  // namespace

Evaluation evaluate_local(const LocalForecaster& f, const SeriesTable& table, const EvaluateOptions& options,
                          const std::vector<std::string>& beside) {
  f.check(table);
  check_evaluation(f.split, table, options);
  const std::int64_t season = options.season > 0 ? options.season : f.season;
  LocalTest test;
  for (const Series& series : table.series) add_series(test, f, table, series, options, season);
  for (const ErrorColumn& column : test.columns) {
    std::int64_t windows = 0;
    for (std::int64_t row = column.first;
         row <= column.last && (options.windows == 0 || windows < options.windows);
         row += options.stride, ++windows) {
      test.origins.push_back({&column, row});
    }
  }
  INGOT_CHECK(
      !test.origins.empty(),
      DataError(table.source, 0, "",
                fmt::format("no test part holds the horizon of {} rows; a larger test fraction is needed",
                            f.horizon)));
  Evaluation result;
  result.windows = static_cast<std::int64_t>(test.origins.size() / table.targets);
  result.season = season;
  result.skipped = test.skipped;
  // The model with its inputs, then others without, among them itself where that is something else.
  const bool inputs = !table.future_names.empty();
  std::vector<std::string> methods{f.model};
  if (inputs && !beside.empty()) methods.push_back(f.model);
  for (const std::string& name : beside) {
    if (name != f.model) methods.push_back(name);
  }
  const std::vector<int> levels = options.levels.value_or(std::vector{80, 90});
  for (std::size_t i = 0; i < methods.size(); ++i) {
    const std::string& name = methods[i];
    const Stopwatch watch;
    const ErrorSums sums = errors_of(name, test, f, i == 0 ? levels : std::vector<int>{}, i == 0 && inputs);
    INGOT_CHECK(sums.count > 0, DataError(table.source, 0, "",
                                          "has no value of what is forecast in its test part, so there is "
                                          "nothing to measure errors against"));
    result.methods.push_back(
        sums.metrics(i == 1 && name == f.model ? name + " without inputs" : name, watch.seconds()));
  }
  if (!test.skipped.empty()) {
    result.notes.push_back(
        fmt::format("Left out, as their test part is shorter than the horizon of {} rows: {}.", f.horizon,
                    list_of(test.skipped)));
  }
  result.verdict = verdict(result.methods);
  return result;
}

}  // namespace ingot::forecast
