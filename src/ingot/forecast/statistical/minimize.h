#pragma once

#include <functional>
#include <span>
#include <vector>

namespace ingot::forecast {

struct Bounds {
  std::vector<double> low, high;
};

/// The minimum that Nelder and Mead's simplex finds from `start` inside of bounds, with the coefficients of
/// Gao and Han (2012), which depend on the number of dimensions. Ends when its values differ by no more than
/// `tolerance` (standard deviation), or after so many rounds.
std::vector<double> minimize(const std::function<double(std::span<const double>)>& f,
                             std::vector<double> start, const Bounds& bounds, double tolerance, int rounds);

/// The minimum that Broyden, Fletcher, Goldfarb and Shanno's method finds from `start`, with differences for
/// gradients; at most so many rounds.
std::vector<double> descend(const std::function<double(std::span<const double>)>& f,
                            std::vector<double> start, int rounds);

}  // namespace ingot::forecast
