#include <algorithm>

#include "ingot/forecast/statistical/local_model.h"

namespace ingot::forecast {
namespace {

constexpr double kDemandWeight = 0.1;  // of the newest value, in sizes, distances and probabilities

// Simple exponential smoothing, from the first value on.
class Smoothed {
 public:
  void add(double value) {
    level_ = any_ ? kDemandWeight * value + (1 - kDemandWeight) * level_ : value;
    any_ = true;
  }
  bool any() const { return any_; }
  double level() const { return level_; }

 private:
  double level_ = 0;
  bool any_ = false;
};

// Any row may be what rows were: zero as often as they were zero.
LocalForecast steady(double mean, std::span<const double> x, std::int64_t horizon, const char* form) {
  LocalForecast f;
  f.mean.assign(static_cast<std::size_t>(horizon), mean);
  f.values.assign(x.begin(), x.end());
  std::ranges::sort(f.values);
  f.form = form;
  return f;
}

double size_over_distance(std::span<const double> x) {
  Smoothed size, distance;
  std::size_t last = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] > 0) size.add(x[i]);
    if (x[i] == 0) continue;
    distance.add(static_cast<double>(i + 1 - last));
    last = i + 1;
  }
  return size.any() ? size.level() / distance.level() : x.back();
}

}  // namespace

LocalForecast croston_forecast(std::span<const double> x, std::int64_t /*season*/, std::int64_t horizon) {
  return steady(size_over_distance(x), x, horizon, "Croston");
}

LocalForecast sba_forecast(std::span<const double> x, std::int64_t /*season*/, std::int64_t horizon) {
  return steady(0.95 * size_over_distance(x), x, horizon, "Croston SBA");
}

LocalForecast tsb_forecast(std::span<const double> x, std::int64_t /*season*/, std::int64_t horizon) {
  Smoothed size, probability;
  for (const double v : x) {
    if (v > 0) size.add(v);
    probability.add(v != 0 ? 1 : 0);
  }
  return steady(size.level() * probability.level(), x, horizon, "TSB");
}

}  // namespace ingot::forecast
