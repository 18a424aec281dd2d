#include "ingot/forecast/statistical/stl.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace ingot::forecast {
namespace {

using Values = std::vector<double>;

constexpr std::size_t kSeasonalWindow = 11;
constexpr int kRounds = 5;

/// The value at `at` (rows are 1, 2, ...) of a line, or of a constant, that is fitted to rows first ... last
/// with weights that fall with distance.
double local_fit(std::span<const double> y, std::size_t window, bool line, double at, std::size_t first,
                 std::size_t last) {
  const auto n = static_cast<double>(y.size());
  double reach = std::max(at - static_cast<double>(first), static_cast<double>(last) - at);
  const std::size_t half = (window - std::min(window, y.size())) / 2;  // of what the window lacks in rows
  reach += static_cast<double>(half);
  Values weights(last - first + 1, 0.0);
  double sum = 0, centre = 0;
  for (std::size_t j = first; j <= last; ++j) {
    const double distance = std::abs(static_cast<double>(j) - at);
    double& weight = weights[j - first];
    if (distance <= 0.999 * reach)
      weight = distance <= 0.001 * reach ? 1 : std::pow(1 - std::pow(distance / reach, 3), 3);
    sum += weight;
  }
  for (double& weight : weights) weight /= sum;
  for (std::size_t j = first; j <= last; ++j) centre += weights[j - first] * static_cast<double>(j);
  double spread = 0, value = 0;
  for (std::size_t j = first; j <= last; ++j)
    spread += weights[j - first] * std::pow(static_cast<double>(j) - centre, 2);
  const double slope = line && reach > 0 && std::sqrt(spread) > 0.001 * (n - 1) ? (at - centre) / spread : 0;
  for (std::size_t j = first; j <= last; ++j)
    value += weights[j - first] * (slope * (static_cast<double>(j) - centre) + 1) * y[j - 1];
  return value;
}

Values smooth(std::span<const double> y, std::size_t window, bool line) {
  const std::size_t n = y.size();
  if (n < 2) return {y.begin(), y.end()};
  Values out;
  std::size_t first = 1, last = std::min(window, n);
  for (std::size_t i = 1; i <= n; ++i) {
    if (window < n && i > (window + 1) / 2 && last != n) {
      ++first;
      ++last;
    }
    out.push_back(local_fit(y, window, line, static_cast<double>(i), first, last));
  }
  return out;
}

/// Each row of the cycle smoothed over the cycles, with one cycle more at both ends.
Values smooth_cycles(const Values& y, std::size_t season) {
  Values out(y.size() + 2 * season);
  for (std::size_t j = 0; j < season; ++j) {
    Values rows;
    for (std::size_t i = j; i < y.size(); i += season) rows.push_back(y[i]);
    const std::size_t k = rows.size();
    Values smoothed = smooth(rows, kSeasonalWindow, false);
    smoothed.insert(smoothed.begin(),
                    local_fit(rows, kSeasonalWindow, false, 0, 1, std::min(kSeasonalWindow, k)));
    const std::size_t first = k > kSeasonalWindow ? k - kSeasonalWindow + 1 : 1;
    smoothed.push_back(local_fit(rows, kSeasonalWindow, false, static_cast<double>(k + 1), first, k));
    for (std::size_t i = 0; i < smoothed.size(); ++i) out[j + i * season] = smoothed[i];
  }
  return out;
}

Values moving_average(const Values& y, std::size_t window) {
  Values out;
  double sum = std::accumulate(y.begin(), y.begin() + static_cast<std::ptrdiff_t>(window), 0.0);
  for (std::size_t i = window;; ++i) {
    out.push_back(sum / static_cast<double>(window));
    if (i == y.size()) return out;
    sum += y[i] - y[i - window];
  }
}

double variance(const Values& y) {
  const double mean = std::accumulate(y.begin(), y.end(), 0.0) / static_cast<double>(y.size());
  double sum = 0;
  for (const double v : y) sum += (v - mean) * (v - mean);
  return sum / static_cast<double>(y.size() - 1);
}

Values difference_of(std::span<const double> a, std::span<const double> b) {
  Values out(a.size());
  std::ranges::transform(a, b, out.begin(), std::minus<>());
  return out;
}

std::size_t next_odd(std::size_t n) { return n % 2 == 0 ? n + 1 : n; }

}  // namespace

double seasonal_strength(std::span<const double> x, std::int64_t season) {
  const auto m = static_cast<std::size_t>(season);
  const auto trend_window = next_odd(
      static_cast<std::size_t>(std::ceil(1.5 * static_cast<double>(m) / (1 - 1.5 / kSeasonalWindow))));
  Values trend(x.size(), 0.0), seasonal;
  for (int round = 0; round < kRounds; ++round) {
    const Values cycles = smooth_cycles(difference_of(x, trend), m);
    const Values slow =
        smooth(moving_average(moving_average(moving_average(cycles, m), m), 3), next_odd(m + 1), true);
    seasonal = difference_of(std::span(cycles).subspan(m, x.size()), slow);
    trend = smooth(difference_of(x, seasonal), trend_window, true);
  }
  const Values detrended = difference_of(x, trend);
  const double whole = variance(detrended);
  return whole > 0 ? std::clamp(1 - variance(difference_of(detrended, seasonal)) / whole, 0.0, 1.0) : 0;
}

}  // namespace ingot::forecast
