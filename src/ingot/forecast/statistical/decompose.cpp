#include "ingot/forecast/statistical/decompose.h"

#include <numeric>

namespace ingot::forecast {

std::vector<double> seasonal_pattern(std::span<const double> x, std::int64_t season, bool multiplicative) {
  const auto m = static_cast<std::size_t>(season), half = m / 2;
  std::vector<double> sum(m), count(m);
  for (std::size_t i = half; i + half < x.size(); ++i) {
    double average = 0;
    for (std::size_t k = i - half; k <= i + half; ++k) {
      const bool edge = m % 2 == 0 && (k == i - half || k == i + half);  // an even season ends in half rows
      average += (edge ? 0.5 : 1.0) * x[k] / static_cast<double>(m);
    }
    sum[i % m] += multiplicative ? x[i] / average : x[i] - average;
    ++count[i % m];
  }
  for (std::size_t k = 0; k < m; ++k) sum[k] = count[k] > 0 ? sum[k] / count[k] : (multiplicative ? 1 : 0);
  const double mean = std::accumulate(sum.begin(), sum.end(), 0.0) / static_cast<double>(m);
  for (double& value : sum) value = multiplicative ? value / mean : value - mean;
  return sum;
}

Line fitted_line(std::span<const double> x) {
  const auto n = static_cast<double>(x.size());
  double sum = 0, weighted = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += x[i];
    weighted += static_cast<double>(i + 1) * x[i];
  }
  if (x.size() < 2) return {sum, 0};
  const double slope = 6 * (2 * weighted / (n + 1) - sum) / (n * (n - 1));
  return {sum / n - slope * (n + 1) / 2, slope};
}

}  // namespace ingot::forecast
