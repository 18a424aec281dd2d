#include "ingot/rl/environment.h"

#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot {

std::int64_t EnvironmentSpec::observation_size() const {
  return std::accumulate(observation.begin(), observation.end(), std::int64_t{1}, std::multiplies<>());
}

void check_environment_state(std::size_t found, std::size_t needed) {
  INGOT_CHECK(
      found == needed,
      InvalidConfig("environment", fmt::format("the saved games have {} bytes, and these need {}: the "
                                               "run was begun with another game or number of games",
                                               found, needed)));
}

}  // namespace ingot
