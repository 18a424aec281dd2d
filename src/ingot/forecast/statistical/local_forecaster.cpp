#include "ingot/forecast/statistical/local_forecaster.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/parallel.h"
#include "ingot/base/scope.h"
#include "ingot/forecast/error_sums.h"
#include "ingot/forecast/fit_checkpoint.h"
#include "ingot/forecast/input_effects.h"
#include "ingot/forecast/table/future_columns.h"

namespace ingot::forecast {
namespace {

constexpr std::int64_t kFolds = 3;

std::span<const double> history_of(const Series& series, std::size_t column, std::int64_t rows) {
  return std::span(series.columns[column]).first(static_cast<std::size_t>(rows));
}

// Two in five values or more are zero: demand that comes now and then.
bool is_sparse(const SeriesTable& table) {
  std::int64_t zeros = 0, all = 0;
  for (const Series& series : table.series) {
    for (std::size_t t = 0; t < table.targets; ++t) {
      zeros += std::ranges::count(series.columns[t], 0.0);
      all += static_cast<std::int64_t>(series.columns[t].size());
    }
  }
  return 5 * zeros >= 2 * all;
}

// Sum and count of |error| over the one-season-ago forecast's, of one column.
std::pair<double, double> error_of(LocalModel model, const Series& series, std::size_t column,
                                   std::int64_t horizon, std::int64_t season) {
  const auto rows = static_cast<std::int64_t>(series.length());
  double sum = 0, count = 0;
  for (std::int64_t fold = 1; fold <= kFolds; ++fold) {
    const std::int64_t origin = rows - fold * horizon;
    if (origin < std::max<std::int64_t>(2, horizon)) break;
    const double naive = seasonal_error(series, column, origin, season < origin ? season : 1);
    if (naive <= 0) continue;
    const LocalForecast f = continue_column(model, series, column, origin, season, horizon);
    for (std::int64_t h = 0; h < horizon; ++h) {
      const auto row = static_cast<std::size_t>(origin + h);
      if (!series.measured(column, row)) continue;
      sum += std::abs(series.columns[column][row] - f.mean[static_cast<std::size_t>(h)]) / naive;
      count += 1;
    }
  }
  return {sum, count};
}

bool is_for_sparse(const std::string& name) { return name == "croston" || name == "sba" || name == "tsb"; }

double score_of(const std::string& name, const SeriesTable& table, std::int64_t horizon,
                std::int64_t season) {
  const LocalModel model = local_model(name);
  const auto columns = static_cast<std::int64_t>(table.series.size() * table.targets);
  std::vector<std::pair<double, double>> parts(static_cast<std::size_t>(columns));
  parallel_for(columns, 1, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      const auto at = static_cast<std::size_t>(i);
      parts[at] = error_of(model, table.series[at / table.targets], at % table.targets, horizon, season);
    }
  });
  double sum = 0, count = 0;
  for (const auto& [errors, values] : parts) {
    sum += errors;
    count += values;
  }
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

LocalForecast continue_column(LocalModel model, const Series& series, std::size_t column, std::int64_t origin,
                              std::int64_t season, std::int64_t horizon) {
  const Scope scope(ScopeKind::work, "fit and forecast a column", static_cast<std::int64_t>(column));
  const std::span<const double> history = history_of(series, column, origin);
  if (series.future.empty()) return model(history, season, horizon);
  EffectSums sums(series.future.size());
  sums.add(history, {series.future.begin(), series.future.end()}, season,
           series.made_up.empty() ? std::vector<bool>{} : series.made_up[column]);
  const std::vector<double> effects = sums.solve();
  const auto effect_at = [&](std::size_t row) {
    double sum = 0;
    for (std::size_t i = 0; i < effects.size(); ++i) sum += effects[i] * series.future[i][row];
    return sum;
  };
  std::vector<double> rest(history.begin(), history.end());
  for (std::size_t row = 0; row < rest.size(); ++row) rest[row] -= effect_at(row);
  LocalForecast forecast = model(rest, season, horizon);
  for (std::size_t h = 0; h < forecast.mean.size(); ++h) forecast.mean[h] += effect_at(rest.size() + h);
  return forecast;
}

TableOptions LocalForecaster::table_options() const {
  TableOptions options = table;
  options.targets.assign(column_names.begin(), column_names.begin() + static_cast<std::ptrdiff_t>(targets));
  options.columns = column_names;
  if (frequency == parse_frequency("D") || frequency == parse_frequency("B"))
    options.frequency = frequency.name();
  return options;
}

void LocalForecaster::check(const SeriesTable& t) const {
  INGOT_CHECK(t.column_names == column_names,
              DataError(t.source, 1, "",
                        fmt::format("has the columns {}, the model was chosen for {}",
                                    fmt::join(t.column_names, ", "), fmt::join(column_names, ", "))));
  INGOT_CHECK(t.frequency == frequency,
              DataError(t.source, 0, "",
                        fmt::format("has one row per {}, the model was chosen for one per {}",
                                    t.frequency.name(), frequency.name())));
}

std::vector<std::string> local_models_for(const SeriesTable& table) {
  const bool sparse = table.future_names.empty() && is_sparse(table);
  std::vector<std::string> names;
  for (const std::string& name : local_models()) {
    if (sparse || !is_for_sparse(name)) names.push_back(name);
  }
  return names;
}

std::vector<LocalScore> score_local_models(const SeriesTable& table, std::int64_t horizon,
                                           std::int64_t season) {
  std::vector<LocalScore> scores;
  for (const std::string& name : local_models_for(table)) {
    const double mase = score_of(name, table, horizon, season);
    if (!std::isnan(mase)) scores.push_back({name, mase});
  }
  INGOT_CHECK(!scores.empty(), DataError(table.source, 0, "",
                                         fmt::format("has no series that varies and is long enough to "
                                                     "compare models on: two horizons of {} rows are "
                                                     "needed; choose a smaller --horizon, or a --model",
                                                     horizon)));
  std::ranges::stable_sort(scores, {}, &LocalScore::mase);
  return scores;
}

LocalForecaster fit_local(const LocalOptions& options, const SeriesTable& table,
                          const TableOptions& read_with, const SplitOptions& split) {
  INGOT_CHECK(options.horizon >= 1,
              InvalidConfig("horizon", fmt::format("must be at least 1, got {}", options.horizon)));
  INGOT_CHECK(options.season >= 0,
              InvalidConfig("season", fmt::format("must be at least 0, got {}", options.season)));
  LocalForecaster f{.model = options.model,
                    .horizon = options.horizon,
                    .season = options.season > 0 ? options.season : table.frequency.season(),
                    .table = with_layout_of(table, read_with),
                    .split = split,
                    .column_names = table.column_names,
                    .targets = table.targets,
                    .frequency = table.frequency,
                    .scores = {}};
  if (f.model == "auto") {
    f.scores = score_local_models(table, f.horizon, f.season);
    f.model = f.scores.front().model;
  }
  static_cast<void>(local_model(f.model));
  INGOT_CHECK(table.future_names.empty() || !is_for_sparse(f.model),
              InvalidConfig("future", fmt::format("has no effect on {}; choose another model, or leave out "
                                                  "--future and --holidays",
                                                  f.model)));
  f.metadata.describe_process(kCpu);
  f.metadata.data = {{"data", table_digest(table)}};
  f.metadata.set_configuration({{"model", f.model, true},
                                {"horizon", std::to_string(f.horizon), true},
                                {"season", std::to_string(f.season), options.season > 0}});
  return f;
}

SeriesForecast predict_local_at(const LocalForecaster& f, const SeriesTable& table, const Series& series,
                                std::int64_t origin, const std::vector<int>& levels) {
  INGOT_CHECK(origin >= 1 && origin <= static_cast<std::int64_t>(series.length()),
              DataError(table.source, 0, "", "leaves no row before the forecast"));
  check_known_ahead(table, series, origin, f.horizon);
  for (const int level : levels) {
    INGOT_CHECK(level >= 0 && level <= 99,  // 0 is the median
                InvalidConfig("level", fmt::format("is {}, expected per cent from 1 to 99", level)));
  }
  SeriesForecast forecast{.id = series.id, .times = {}, .values = {}, .low = {}, .high = {}};
  for (std::int64_t h = 1; h <= f.horizon; ++h) {
    forecast.times.push_back(
        table.frequency.advance(series.times[static_cast<std::size_t>(origin - 1)], h, series.month_day));
  }
  for (std::size_t t = 0; t < table.targets; ++t) {
    const LocalForecast column =
        continue_column(local_model(f.model), series, t, origin, f.season, f.horizon);
    forecast.values.push_back(column.mean);
    for (const int level : levels) {
      std::vector<double> low, high;
      for (std::size_t h = 0; h < column.mean.size(); ++h) {
        const auto [from, to] = column.interval(level, h);
        low.push_back(from);
        high.push_back(to);
      }
      forecast.low[level].push_back(std::move(low));
      forecast.high[level].push_back(std::move(high));
    }
  }
  return forecast;
}

std::vector<SeriesForecast> predict_local(const LocalForecaster& f, const SeriesTable& table,
                                          const std::vector<int>& levels) {
  f.check(table);
  std::vector<const Series*> known;
  for (const Series& series : table.series) {
    if (known_ahead(series, f.horizon)) known.push_back(&series);
  }
  if (known.empty()) known.push_back(&table.series.front());  // says what is missing
  std::vector<SeriesForecast> forecasts(known.size());
  parallel_for(static_cast<std::int64_t>(known.size()), 1, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      const Series& series = *known[static_cast<std::size_t>(i)];
      forecasts[static_cast<std::size_t>(i)] =
          predict_local_at(f, table, series, static_cast<std::int64_t>(series.length()), levels);
    }
  });
  return forecasts;
}

}  // namespace ingot::forecast
