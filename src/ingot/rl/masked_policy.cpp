#include "ingot/rl/masked_policy.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"

namespace ingot {
namespace {

// So far below every logit that its exponential is 0; finite, so that 0 times it is 0 in an entropy.
constexpr float kNever = -1e30F;
constexpr float kLargest = std::numeric_limits<float>::max();

[[noreturn]] void refuse(std::size_t action, float log_probability) {
  throw NonFinite("the policy",
                  fmt::format("gives action {} a log-probability of {}", action, log_probability));
}

// Minus infinity is the probability 0, as where logits differ by more than f32 holds.
void check_number(std::size_t action, float log_probability) {
  if (std::isnan(log_probability) || log_probability > kLargest) refuse(action, log_probability);
}

// That some action is legal, and has a probability.
void check_chosen(std::int32_t chosen, std::span<const float> log_probabilities) {
  INGOT_CHECK(chosen >= 0, Error("the policy: no action is legal; a game must have ended before that"));
  const auto action = static_cast<std::size_t>(chosen);
  if (std::isinf(log_probabilities[action])) refuse(action, log_probabilities[action]);
}

}  // namespace

Tensor masked_log_softmax(const Tensor& logits, const Tensor& legal) {
  const auto constant = [&](float value, DType dtype) {
    return to(Tensor::scalar(value, logits.device()), dtype);
  };
  const Tensor wide = logits.dtype() == DType::f64 ? logits : to(logits, DType::f32);
  const Tensor may = greater(legal, constant(0, legal.dtype()));
  return log_softmax(where(may, wide, constant(kNever, wide.dtype())));
}

std::int32_t sample_action(std::span<const float> log_probabilities, std::span<const float> legal,
                           double uniform) {
  double passed = 0;
  std::int32_t chosen = -1;
  for (std::size_t i = 0; i < legal.size(); ++i) {
    if (legal[i] == 0) continue;
    check_number(i, log_probabilities[i]);
    const double probability = std::exp(static_cast<double>(log_probabilities[i]));
    if (chosen < 0 || probability > 0 || std::isinf(log_probabilities[static_cast<std::size_t>(chosen)]))
      chosen = static_cast<std::int32_t>(i);
    passed += probability;
    if (uniform < passed) break;
  }
  check_chosen(chosen, log_probabilities);
  return chosen;
}

std::int32_t best_action(std::span<const float> log_probabilities, std::span<const float> legal) {
  std::int32_t best = -1;
  for (std::size_t i = 0; i < legal.size(); ++i) {
    if (legal[i] == 0) continue;
    check_number(i, log_probabilities[i]);
    if (best < 0 || log_probabilities[i] > log_probabilities[static_cast<std::size_t>(best)])
      best = static_cast<std::int32_t>(i);
  }
  check_chosen(best, log_probabilities);
  return best;
}

}  // namespace ingot
