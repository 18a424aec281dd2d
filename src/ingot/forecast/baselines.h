#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ingot::forecast {

/// A forecast that needs no network, made of one column's history. Every network should be better than these.
class Baseline {
 public:
  virtual ~Baseline() = default;
  /// The rows `origin`, origin + 1, ... from the rows before them.
  virtual void forecast(std::int64_t origin, std::span<double> out) const = 0;
};

/// The last value for ever.
std::unique_ptr<Baseline> naive(std::span<const double> x);
/// The value one season ago.
std::unique_ptr<Baseline> seasonal_naive(std::span<const double> x, std::int64_t season);

/// Smoothing weights and damping of exponential smoothing with additive errors.
struct EtsParameters {
  double alpha = 0.1;  ///< of the level
  double beta = 0;     ///< of the trend
  double gamma = 0;    ///< of the season
  double phi = 1;      ///< damping of the trend
  bool trend = false, seasonal = false;
};

/// Exponential smoothing in state-space form with additive errors (Hyndman et al. 2008): level, with or
/// without a damped trend, with or without an additive season; the model with the least AICc on x[0,
/// fit_rows) and its weights by Nelder-Mead. Afterwards the states follow all of x, so each origin has its
/// own forecast.
std::unique_ptr<Baseline> ets(std::span<const double> x, std::int64_t fit_rows, std::int64_t season,
                              EtsParameters* chosen = nullptr);

/// The minimum that Nelder and Mead's simplex (1965) finds from `start`, with edges of `step`.
std::vector<double> nelder_mead(const std::function<double(std::span<const double>)>& f,
                                std::vector<double> start, double step, int evaluations);

}  // namespace ingot::forecast
