#include "ingot/rl/masked_policy.h"

#include <cmath>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"

namespace ingot {

Tensor masked_log_softmax(const Tensor& logits, const Tensor& legal) {
  return log_softmax(logits + scale(legal, 1e9, -1e9));
}

std::int32_t sample_action(std::span<const float> log_probabilities, std::span<const float> legal,
                           double uniform) {
  double passed = 0;
  std::int32_t chosen = -1;
  for (std::size_t i = 0; i < legal.size(); ++i) {
    if (legal[i] == 0) continue;
    INGOT_CHECK(std::isfinite(log_probabilities[i]),
                NonFinite("sample_action", fmt::format("the policy gives action {} a log-probability of {}",
                                                       i, log_probabilities[i])));
    const double probability = std::exp(static_cast<double>(log_probabilities[i]));
    if (chosen < 0 || probability > 0) chosen = static_cast<std::int32_t>(i);
    passed += probability;
    if (uniform < passed) break;
  }
  INGOT_CHECK(chosen >= 0, Error("sample_action: no action is legal; a game must have ended before that"));
  return chosen;
}

}  // namespace ingot
