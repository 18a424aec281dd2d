#include <algorithm>
#include <cmath>
#include <numeric>

#include "ingot/forecast/statistical/decompose.h"
#include "ingot/forecast/statistical/local_model.h"

namespace ingot::forecast {
namespace {

constexpr std::size_t kBurnIn = 3;  // first errors, which depend on where the level starts

// Whether the autocorrelation at one season is larger than chance makes it, at 90 %.
bool has_season(std::span<const double> x, std::int64_t season) {
  const auto m = static_cast<std::size_t>(season);
  if (season < 4 || x.size() < 2 * m) return false;
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  const auto covariance = [&](std::size_t lag) {
    double sum = 0;
    for (std::size_t i = lag; i < x.size(); ++i) sum += (x[i] - mean) * (x[i - lag] - mean);
    return sum;
  };
  const double variance = covariance(0);
  if (variance == 0) return false;
  double squares = 0;
  for (std::size_t lag = 1; lag < m; ++lag) squares += std::pow(covariance(lag) / variance, 2);
  const double bound = 1.6448536269514722 * std::sqrt((1 + 2 * squares) / static_cast<double>(x.size()));
  return std::abs(covariance(m) / variance) > bound;
}

// Half of a level that follows the rows, half of the line through all of them.
struct Theta {
  Line line;
  double alpha = 0.5, start = 0;  // of the level

  double expected(double level, std::size_t i) const {
    const double decay = std::pow(1 - alpha, static_cast<double>(i));
    return level + 0.5 * (line.intercept * decay + line.slope * (1 - decay * (1 - alpha)) / alpha);
  }
  // The level after all rows; errors of one step on the way.
  double follow(std::span<const double> x, std::vector<double>& errors) const {
    errors.clear();
    double level = start;
    for (std::size_t i = 0; i < x.size(); ++i) {
      errors.push_back(x[i] - expected(level, i));
      level = alpha * x[i] + (1 - alpha) * level;
    }
    return level;
  }
};

double squares_of(std::span<const double> errors) {
  double sum = 0;
  for (std::size_t i = std::min(kBurnIn, errors.size()); i < errors.size(); ++i) sum += errors[i] * errors[i];
  return sum;
}

// Errors are linear in the level's start, which least squares give for each alpha.
double best_start(Theta theta, std::span<const double> x) {
  std::vector<double> errors;
  theta.start = 0;
  theta.follow(x, errors);
  double numerator = 0, denominator = 0;
  for (std::size_t i = std::min(kBurnIn, x.size()); i < x.size(); ++i) {
    const double weight = std::pow(1 - theta.alpha, static_cast<double>(i));
    numerator += weight * errors[i];
    denominator += weight * weight;
  }
  return denominator > 1e-12 ? numerator / denominator : x[0] / 2;
}

Theta fitted_theta(std::span<const double> x) {
  Theta best{.line = fitted_line(x)};
  double least = -1;
  std::vector<double> errors;
  const auto attempt = [&](double alpha) {
    Theta theta{.line = best.line, .alpha = alpha};
    theta.start = best_start(theta, x);
    theta.follow(x, errors);
    const double squares = squares_of(errors);
    if (least < 0 || squares < least) {
      least = squares;
      best = theta;
    }
  };
  for (int i = 10; i <= 99; ++i) attempt(i / 100.0);
  for (double step = 0.005; step > 1e-4; step /= 2) {
    const double centre = best.alpha;
    for (const double alpha : {centre - step, centre + step}) attempt(std::clamp(alpha, 0.1, 0.99));
  }
  return best;
}

// Of the errors behind the first ones; of all but the first where there are too few.
double deviation_of(std::span<const double> errors) {
  const double freedom = static_cast<double>(errors.size()) - static_cast<double>(kBurnIn) - 1;
  if (freedom > 0) return std::sqrt(squares_of(errors) / freedom);
  double squares = 0;
  for (const double e : errors.subspan(std::min<std::size_t>(1, errors.size()))) squares += e * e;
  return errors.size() < 2 ? 0 : std::sqrt(squares / static_cast<double>(errors.size() - 1));
}

}  // namespace

LocalForecast theta_forecast(std::span<const double> x, std::int64_t season, std::int64_t horizon) {
  std::vector<double> adjusted(x.begin(), x.end()), pattern;
  const bool seasonal = has_season(x, season);
  bool multiplicative = std::ranges::min(x) > 0;
  if (seasonal) {
    pattern = seasonal_pattern(x, season, multiplicative);
    if (multiplicative && std::ranges::min(pattern) < 0.01) {
      multiplicative = false;
      pattern = seasonal_pattern(x, season, false);
    }
    for (std::size_t i = 0; i < adjusted.size(); ++i) {
      const double s = pattern[i % pattern.size()];
      adjusted[i] = multiplicative ? adjusted[i] / s : adjusted[i] - s;
    }
  }
  const Theta theta = fitted_theta(adjusted);
  std::vector<double> errors;
  double level = theta.follow(adjusted, errors);
  const double sigma = deviation_of(errors);
  LocalForecast f;
  f.form = seasonal ? (multiplicative ? "theta, multiplicative season" : "theta, additive season") : "theta";
  for (std::size_t h = 0; h < static_cast<std::size_t>(horizon); ++h) {
    double mean = theta.expected(level, x.size() + h);
    level = theta.alpha * mean + (1 - theta.alpha) * level;
    double deviation = sigma * std::sqrt(1 + static_cast<double>(h) * theta.alpha * theta.alpha);
    if (seasonal) {
      const double s = pattern[(x.size() + h) % pattern.size()];
      mean = multiplicative ? mean * s : mean + s;
      if (multiplicative) deviation *= s;
    }
    f.mean.push_back(mean);
    f.deviation.push_back(deviation);
  }
  return f;
}

}  // namespace ingot::forecast
