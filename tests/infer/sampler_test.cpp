#include "ingot/infer/sampler.h"

#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

const std::vector<float> kLogits{1.0F, 3.0F, 2.0F, 3.0F, -1.0F};

std::map<std::int32_t, int> draw(const SamplingOptions& options, int n) {
  Sampler sampler(options);
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < n; ++i) ++counts[sampler(kLogits)];
  return counts;
}

TEST(Sampler, TemperatureZeroTakesTheLikeliestAndTheFirstOfEquals) {
  EXPECT_EQ(draw({.temperature = 0}, 20), (std::map<std::int32_t, int>{{1, 20}}));
}

TEST(Sampler, DrawsFollowTheSoftmax) {
  const int n = 40000;
  auto counts = draw({.temperature = 1.0, .seed = 5}, n);
  double total = 0;
  for (const float l : kLogits) total += std::exp(l);
  for (int id = 0; id < 5; ++id) {
    const double p = std::exp(kLogits[static_cast<std::size_t>(id)]) / total;
    EXPECT_NEAR(counts[id] / static_cast<double>(n), p, 5 * std::sqrt(p * (1 - p) / n)) << id;
  }
}

TEST(Sampler, TopKKeepsExactlyTheKLikeliest) {
  const auto counts = draw({.temperature = 5.0, .top_k = 3, .seed = 1}, 3000);
  EXPECT_EQ(counts.size(), 3U);
  for (const int id : {1, 2, 3}) EXPECT_GT(counts.at(id), 0);
}

TEST(Sampler, TopPKeepsTheFewestTokensThatReachP) {
  // The two threes hold 0.67 of the probability together: 0.6 needs both, 0.3 only the first.
  EXPECT_EQ(draw({.temperature = 1.0, .top_p = 0.6}, 2000).size(), 2U);
  EXPECT_EQ(draw({.temperature = 1.0, .top_p = 0.3}, 2000).size(), 1U);
}

TEST(Sampler, MinPDropsWhatIsFarBelowTheLikeliest) {
  EXPECT_EQ(draw({.temperature = 1.0, .min_p = 0.2}, 4000).size(),
            3U);  // exp(-1) = 0.37 stays, exp(-2) = 0.14 goes
}

TEST(Sampler, RepetitionPenaltyMovesAwayFromWhatWasSaid) {
  Sampler sampler({.temperature = 0, .repetition_penalty = 2.0});
  const std::vector<std::int32_t> history{1, 1, 3};
  EXPECT_EQ(sampler(kLogits, history), 2);
}

TEST(Sampler, TheSameSeedDrawsTheSameTokens) {
  Sampler a({.seed = 9}), b({.seed = 9}), c({.seed = 10});
  int different = 0;
  for (int i = 0; i < 200; ++i) {
    const auto token = a(kLogits);
    EXPECT_EQ(token, b(kLogits));
    different += token != c(kLogits) ? 1 : 0;
  }
  EXPECT_GT(different, 0);
}

TEST(Sampler, RefusesBrokenLogitsAndOptions) {
  Sampler sampler({});
  const std::vector<float> nan{0.0F, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THROW(sampler(nan), NonFinite);
  const std::vector<float> none(3, -std::numeric_limits<float>::infinity());
  EXPECT_THROW(sampler(none), NonFinite);
  EXPECT_THROW(Sampler({.temperature = -1}), InvalidConfig);
  EXPECT_THROW(Sampler({.top_p = 0}), InvalidConfig);
}

TEST(Sampler, AMaskedLogitIsNeverDrawn) {
  Sampler sampler({.temperature = 10.0});
  const std::vector<float> logits{0.0F, -std::numeric_limits<float>::infinity(), 0.0F};
  for (int i = 0; i < 1000; ++i) EXPECT_NE(sampler(logits), 1);
}

}  // namespace
}  // namespace ingot
