#pragma once

#include "ingot/base/rng.h"
#include "ingot/tune/space.h"

namespace ingot::tune {

/// The random numbers of one trial.
Rng trial_rng(std::uint64_t seed, std::int64_t number);
/// One value, uniform on the parameter's scale.
double random_value(const SearchSpace& space, std::size_t i, Rng& rng);
/// A whole trial.
Values random_values(const SearchSpace& space, Rng rng);

}  // namespace ingot::tune
