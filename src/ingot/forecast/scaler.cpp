#include "ingot/forecast/scaler.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/suggest.h"

namespace ingot::forecast {
namespace {

const std::vector<std::string> kNames{"standard", "min_max", "none"};

// Filled values vary less than measured ones. Where none is measured, what was filled is all there is.
std::vector<double> values_to_fit(const Series& series, std::size_t column, std::size_t rows) {
  std::vector<double> values;
  values.reserve(rows);
  const bool any = series.any_measured(column, 0, rows);
  for (std::size_t row = 0; row < rows; ++row) {
    if (!any || series.measured(column, row)) values.push_back(series.columns[column][row]);
  }
  return values;
}

// The standard deviation. Squares of differences below 1e-162 would be zero, so they are taken in units of a
// power of two near the largest, which rounds nothing.
double deviation(std::span<const double> x, double mean, double largest) {
  const int exponent = std::ilogb(largest);
  double squares = 0;
  for (const double v : x) {
    const double difference = std::scalbn(v - mean, -exponent);
    squares += difference * difference;
  }
  return std::scalbn(std::sqrt(squares / static_cast<double>(x.size())), exponent);
}

}  // namespace

ScalerKind parse_scaler(std::string_view text, std::string_view key) {
  const auto found = std::ranges::find(kNames, text);
  INGOT_CHECK(
      found != kNames.end(),
      InvalidConfig(std::string(key), fmt::format("'{}' is not a scaler; expected one of {}{}", text,
                                                  fmt::join(kNames, ", "), did_you_mean(text, kNames))));
  return static_cast<ScalerKind>(found - kNames.begin());
}

std::string_view name(ScalerKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::string scaling_problem(ScalerKind kind, const Series& series, std::size_t target, std::int64_t rows) {
  const auto length = static_cast<std::size_t>(rows);
  const std::string_view advice = how_to_leave_out(series, true);
  const std::string of_series = series.id.empty() ? "" : " of series '" + series.id + "'";
  if (!series.any_measured(target, 0, length)) {
    return fmt::format(
        "has no value in the {} rows of the training part{}; {}, or begin the table where its values begin",
        rows, of_series, advice);
  }
  const std::vector<double> x = values_to_fit(series, target, length);
  const auto [low, high] = std::ranges::minmax_element(x);
  if (*low < *high || kind == ScalerKind::none) return "";
  return fmt::format("is constant ({}) over the {} rows{}{}; {}, or pass --scaler none", *low, rows,
                     length < series.length() ? " of the training part" : "", of_series, advice);
}

ColumnScales fit_scales(ScalerKind kind, const Series& series, std::int64_t rows, const SeriesTable& table,
                        ConstantColumns constant) {
  std::size_t unscaled = 0;
  for (std::size_t t = 0; t < table.targets && constant == ConstantColumns::refuse; ++t) {
    const std::string problem = scaling_problem(kind, series, t, rows);
    unscaled += problem.empty() ? 0 : 1;
    INGOT_CHECK(unscaled < table.targets, DataError(table.source, 0, table.column_names[t], problem));
  }
  ColumnScales scales;
  for (std::size_t c = 0; c < series.columns.size(); ++c) {
    const std::vector<double> x = values_to_fit(series, c, static_cast<std::size_t>(rows));
    const auto [low, high] = std::ranges::minmax_element(x);
    const bool varies = *low < *high;
    double shift = 0, scale = 1;
    if (kind == ScalerKind::min_max) {
      shift = *low;
      scale = varies ? *high - *low : 1;
    } else if (kind == ScalerKind::standard) {
      double sum = 0;
      for (const double v : x) sum += v;
      shift = sum / static_cast<double>(x.size());
      scale = varies ? deviation(x, shift, std::max(*high - shift, shift - *low)) : 1;
    }
    scales.shift.push_back(shift);
    scales.scale.push_back(scale);
  }
  return scales;
}

}  // namespace ingot::forecast
