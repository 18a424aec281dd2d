#include "ingot/rl/environment.h"

#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot {

namespace {

std::int64_t size_of(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

std::int64_t EnvironmentSpec::observation_size() const { return size_of(observation); }

std::int64_t EnvironmentSpec::hidden_size() const { return hidden.empty() ? 0 : size_of(hidden); }

void check_hidden(const EnvironmentSpec& spec, bool told) {
  INGOT_CHECK(
      spec.hidden.empty() != told,
      InvalidConfig("hidden", told ? "the game has observe_hidden(), but its spec gives no shape for it"
                                   : "the game's spec gives its shape, but it has no observe_hidden()"));
}

void check_environment_state(std::size_t found, std::size_t needed) {
  INGOT_CHECK(
      found == needed,
      InvalidConfig("environment", fmt::format("the saved games have {} bytes, and these need {}: the "
                                               "run was begun with another game or number of games",
                                               found, needed)));
}

}  // namespace ingot
