#include "ingot/forecast/error_sums.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/data/csv.h"

namespace ingot::forecast {

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

Borders test_borders(const SplitOptions& split, const Series& series, const SeriesTable& table,
                     std::int64_t test_rows) {
  if (test_rows == 0) return borders_of(split, series, table);
  const auto rows = static_cast<std::int64_t>(series.length());
  const std::int64_t origin = std::max<std::int64_t>(0, rows - test_rows);
  return {origin, origin, rows};
}

std::int64_t test_rows_of_short_table(const SplitOptions& split, const SeriesTable& table,
                                      std::int64_t horizon) {
  std::int64_t longest = 0;
  for (const Series& series : table.series) {
    const Borders b = borders_of(split, series, table);
    if (b.test - b.validation >= horizon) return 0;
    longest = std::max(longest, static_cast<std::int64_t>(series.length()));
  }
  constexpr std::int64_t kLeastHistory = 3;
  INGOT_CHECK(longest >= horizon + kLeastHistory,
              DataError(table.source, 0, "",
                        fmt::format("its {} rows are too few to compare forecasts of {}: {} rows of history "
                                    "and the horizon are needed; choose a smaller --horizon, or fit a model "
                                    "by name",
                                    longest, horizon, kLeastHistory)));
  return std::max(horizon, std::min(2 * horizon, longest / 3));
}

ErrorSums ErrorSums::of(std::int64_t horizon) {
  ErrorSums sums;
  sums.by_step.resize(static_cast<std::size_t>(horizon));
  sums.count_by_step.resize(sums.by_step.size());
  return sums;
}

void ErrorSums::merge(const ErrorSums& o) {
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

void ErrorSums::add(const ErrorColumn& c, std::size_t step, double actual, double forecast) {
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

Metrics ErrorSums::metrics(std::string method, double seconds) const {
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

}  // namespace ingot::forecast
