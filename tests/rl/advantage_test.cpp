#include "ingot/rl/advantage.h"

#include <cmath>
#include <optional>

#include <gtest/gtest.h>

namespace ingot {
namespace {

// The definition, summed out: Σ (γλ)^k δ_k over the decisions of a stream up to the end of its game.
std::optional<double> written_out(const std::vector<RolloutDecision>& all, std::size_t at,
                                  const AdvantageOptions& o) {
  std::vector<std::size_t> stream;
  for (std::size_t i = at; i < all.size(); ++i)
    if (all[i].stream == all[at].stream) stream.push_back(i);
  double sum = 0, weight = 1;
  for (std::size_t k = 0; k < stream.size(); ++k) {
    const RolloutDecision& d = all[stream[k]];
    if (!d.last && k + 1 == stream.size()) return k == 0 ? std::nullopt : std::optional(sum);
    const double next = d.last ? 0 : static_cast<double>(all[stream[k + 1]].value);
    sum += weight * (d.reward + o.gamma * next - d.value);
    if (d.last) break;
    weight *= o.gamma * o.lambda;
  }
  return sum;
}

TEST(Advantage, IsTheSumOfItsDefinitionForEachPlayerOfEachGame) {
  const AdvantageOptions options{.gamma = 0.9, .lambda = 0.8};
  std::vector<RolloutDecision> decisions;
  for (int i = 0; i < 60; ++i) {
    decisions.push_back({.stream = i * 7 % 5 % 4,
                         .value = static_cast<float>(std::sin(i)),
                         .reward = static_cast<float>(i % 3 - 1),
                         .last = i % 11 == 10});
  }
  const Advantages found = estimate_advantages(decisions, 4, options);
  int known = 0;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const std::optional<double> expected = written_out(decisions, i, options);
    ASSERT_EQ(found.known[i] != 0, expected.has_value()) << i;
    if (!expected) continue;
    ++known;
    EXPECT_NEAR(found.advantage[i], *expected, 1e-5) << i;
    EXPECT_NEAR(found.target[i], *expected + decisions[i].value, 1e-5) << i;
  }
  EXPECT_GT(known, 50);
  EXPECT_LT(known, 60);
}

TEST(Advantage, WithLambdaOneTheTargetIsTheReturn) {
  const std::vector<RolloutDecision> decisions = {
      {.value = 5, .reward = 1}, {.value = 7, .reward = 2}, {.value = -3, .reward = 4, .last = true}};
  const Advantages found = estimate_advantages(decisions, 1, {.gamma = 0.5, .lambda = 1});
  EXPECT_FLOAT_EQ(found.target[0], 1 + 0.5 * (2 + 0.5 * 4));
  EXPECT_FLOAT_EQ(found.target[2], 4);
}

}  // namespace
}  // namespace ingot
