#pragma once

#include <cstdint>
#include <span>

namespace ingot::forecast {

/// How much of what a trend leaves is season, from 0 to 1, by a decomposition with loess (STL, Cleveland et
/// al. 1990) whose season changes slowly. `x` has more than two seasons.
double seasonal_strength(std::span<const double> x, std::int64_t season);

}  // namespace ingot::forecast
