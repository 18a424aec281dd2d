#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot::forecast {

/// The season of a history of two seasons or more: what rows of one phase in it lie above a centred moving
/// average over one season, or are times that, on average; [season], with mean 0 or 1.
std::vector<double> seasonal_pattern(std::span<const double> x, std::int64_t season, bool multiplicative);

struct Line {
  double intercept = 0, slope = 0;
};
/// Least squares of x[0], x[1], ... over 1, 2, ...
Line fitted_line(std::span<const double> x);

}  // namespace ingot::forecast
