#include "ingot/forecast/statistical/local_model.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"
#include "ingot/base/suggest.h"

namespace ingot::forecast {
namespace {

// The z that a standard normal value is below with probability p, by bisection of the error function.
double normal_quantile(double p) {
  double low = -10, high = 10;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

const std::vector<std::pair<std::string, LocalModel>> kLocalModels{
    {"naive", naive_forecast},     {"seasonal_naive", seasonal_naive_forecast},
    {"ets", ets_forecast},         {"arima", arima_forecast},
    {"theta", theta_forecast},     {"ensemble", ensemble_forecast},
    {"croston", croston_forecast}, {"sba", sba_forecast},
    {"tsb", tsb_forecast}};

}  // namespace

std::pair<double, double> LocalForecast::interval(int level, std::size_t step) const {
  const double tail = (1 - level / 100.0) / 2;
  if (!values.empty()) {
    const auto at = [&](double p) {
      const double rank = p * static_cast<double>(values.size() - 1);
      return values[static_cast<std::size_t>(std::lround(rank))];
    };
    return {at(tail), at(1 - tail)};
  }
  const double half = normal_quantile(1 - tail) * deviation[step];
  return {mean[step] - half, mean[step] + half};
}

const std::vector<std::string>& local_models() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    all.reserve(std::size(kLocalModels));
    for (const auto& [name, unused] : kLocalModels) all.push_back(name);
    return all;
  }();
  return names;
}

LocalModel local_model(const std::string& name, const std::string& key) {
  const auto found = std::ranges::find(kLocalModels, name, &std::pair<std::string, LocalModel>::first);
  INGOT_CHECK(
      found != kLocalModels.end(),
      InvalidConfig(key, fmt::format("'{}' is not a model; expected one of {}{}", name,
                                     fmt::join(local_models(), ", "), did_you_mean(name, local_models()))));
  return found->second;
}

}  // namespace ingot::forecast
