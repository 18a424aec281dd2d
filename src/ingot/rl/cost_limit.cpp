#include "ingot/rl/cost_limit.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/validated.h"

namespace ingot {

void CostLimitOptions::validate() const {
  INGOT_CHECK(target >= 0, InvalidConfig("target", fmt::format("must be at least 0, got {}", target)));
  for (const auto& [key, value] :
       {std::pair{"proportional", proportional}, {"integral", integral}, {"derivative", derivative}})
    INGOT_CHECK(value >= 0, InvalidConfig(key, fmt::format("must be at least 0, got {}", value)));
  INGOT_CHECK(most > 0, InvalidConfig("most", fmt::format("must be positive, got {}", most)));
}

CostLimit::CostLimit(const CostLimitOptions& options) : options_(validated(options)) {}

void CostLimit::measure(double rate) {
  const double error = rate - options_.target;
  state_.sum = std::max(0.0, state_.sum + error);
  // Only what rises is damped: a rate that falls towards the target is let be.
  const double rise = state_.rate < 0 ? 0 : std::max(0.0, rate - state_.rate);
  state_.rate = rate;
  state_.multiplier =
      std::clamp(options_.proportional * error + options_.integral * state_.sum + options_.derivative * rise,
                 0.0, options_.most);
  // An integral that alone is past the bound would take long to come back.
  if (options_.integral > 0) state_.sum = std::min(state_.sum, options_.most / options_.integral);
}

}  // namespace ingot
