#include "ingot/forecast/statistical/minimize.h"

#include <algorithm>
#include <cmath>

namespace ingot::forecast {
namespace {

struct Corner {
  std::vector<double> x;
  double value = 0;
};

double spread(const std::vector<Corner>& simplex) {
  double mean = 0, squares = 0;
  for (const Corner& c : simplex) mean += c.value / static_cast<double>(simplex.size());
  for (const Corner& c : simplex) squares += (c.value - mean) * (c.value - mean);
  return std::sqrt(squares / static_cast<double>(simplex.size()));
}

}  // namespace

std::vector<double> minimize(const std::function<double(std::span<const double>)>& f,
                             std::vector<double> start, const Bounds& bounds, double tolerance, int rounds) {
  const std::size_t n = start.size();
  const auto dimensions = static_cast<double>(n);
  const double expansion = 1 + 2 / dimensions, contraction = 0.75 - 1 / (2 * dimensions),
               shrinkage = 1 - 1 / dimensions;
  const auto corner = [&](std::vector<double> x) {
    for (std::size_t i = 0; i < n; ++i) x[i] = std::clamp(x[i], bounds.low[i], bounds.high[i]);
    const double value = f(x);
    return Corner{std::move(x), value};
  };
  std::vector<Corner> simplex{corner(start)};
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> x = start;
    x[i] = x[i] == 0 ? 1e-4 : x[i] * 1.05;
    simplex.push_back(corner(std::move(x)));
  }
  for (int round = 0; round < rounds; ++round) {
    std::ranges::stable_sort(simplex, {}, &Corner::value);
    if (spread(simplex) < tolerance) break;
    std::vector<double> centre(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t d = 0; d < n; ++d) centre[d] += simplex[i].x[d] / dimensions;
    }
    Corner& worst = simplex[n];
    const auto along = [&](double t) {  // from the worst corner through the centre
      std::vector<double> x(n);
      for (std::size_t d = 0; d < n; ++d) x[d] = centre[d] + t * (centre[d] - worst.x[d]);
      return corner(std::move(x));
    };
    Corner reflected = along(1);
    if (reflected.value < simplex[0].value) {
      Corner expanded = along(expansion);
      worst = expanded.value < reflected.value ? std::move(expanded) : std::move(reflected);
      continue;
    }
    if (reflected.value < simplex[n - 1].value) {
      worst = std::move(reflected);
      continue;
    }
    Corner contracted = along(reflected.value < worst.value ? contraction : -contraction);
    if (contracted.value < std::min(reflected.value, worst.value)) {
      worst = std::move(contracted);
      continue;
    }
    for (std::size_t i = 1; i <= n; ++i) {
      for (std::size_t d = 0; d < n; ++d) {
        simplex[i].x[d] = simplex[0].x[d] + shrinkage * (simplex[i].x[d] - simplex[0].x[d]);
      }
      simplex[i] = corner(std::move(simplex[i].x));
    }
  }
  return std::ranges::min_element(simplex, {}, &Corner::value)->x;
}

}  // namespace ingot::forecast
