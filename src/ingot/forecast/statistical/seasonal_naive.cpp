#include <algorithm>
#include <cmath>

#include "ingot/forecast/statistical/local_model.h"

namespace ingot::forecast {
namespace {

// The last `season` rows again and again; errors add up from one season to the next.
LocalForecast repeated(std::span<const double> x, std::int64_t season, std::int64_t horizon) {
  const std::size_t lag = std::min(static_cast<std::size_t>(std::max<std::int64_t>(1, season)), x.size());
  double squares = 0;
  for (std::size_t i = lag; i < x.size(); ++i) squares += (x[i] - x[i - lag]) * (x[i] - x[i - lag]);
  const double sigma = x.size() > lag ? std::sqrt(squares / static_cast<double>(x.size() - lag)) : 0;
  LocalForecast f;
  for (std::size_t h = 0; h < static_cast<std::size_t>(horizon); ++h) {
    f.mean.push_back(x[x.size() - lag + h % lag]);
    const std::size_t seasons = h / lag + 1;
    f.deviation.push_back(sigma * std::sqrt(static_cast<double>(seasons)));
  }
  return f;
}

}  // namespace

LocalForecast naive_forecast(std::span<const double> x, std::int64_t /*season*/, std::int64_t horizon) {
  LocalForecast f = repeated(x, 1, horizon);
  f.form = "naive";
  return f;
}

LocalForecast seasonal_naive_forecast(std::span<const double> x, std::int64_t season, std::int64_t horizon) {
  const auto rows = static_cast<std::int64_t>(x.size());
  LocalForecast last = naive_forecast(x, 1, horizon);
  last.form = "naive: fewer rows than a season";
  if (season > rows) return last;
  LocalForecast f = repeated(x, season, horizon);
  f.form = "seasonal naive";
  if (season == rows) f.deviation = last.deviation;  // no row has one a season before it
  return f;
}

}  // namespace ingot::forecast
