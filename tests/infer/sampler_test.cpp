#include "ingot/infer/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/grammar/token_set.h"
#include "ingot/infer/logit_passes.h"

namespace ingot {
namespace {

const std::vector<float> kLogits{1.0F, 3.0F, 2.0F, 3.0F, -1.0F};

std::map<std::int32_t, int> draw(const SamplingOptions& options, int n) {
  Sampler sampler(options);
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < n; ++i) ++counts[sampler(kLogits)];
  return counts;
}

TEST(Sampler, TemperatureZeroTakesTheMostProbableAndTheFirstOfEquals) {
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

TEST(Sampler, TopKKeepsExactlyTheKMostProbable) {
  const auto counts = draw({.temperature = 5.0, .top_k = 3, .seed = 1}, 3000);
  EXPECT_EQ(counts.size(), 3U);
  for (const int id : {1, 2, 3}) EXPECT_GT(counts.at(id), 0);
}

TEST(Sampler, TopPKeepsTheFewestTokensThatReachP) {
  // The two threes hold 0.67 of the probability together: 0.6 needs both, 0.3 only the first.
  EXPECT_EQ(draw({.temperature = 1.0, .top_p = 0.6}, 2000).size(), 2U);
  EXPECT_EQ(draw({.temperature = 1.0, .top_p = 0.3}, 2000).size(), 1U);
}

TEST(Sampler, MinPDropsWhatIsFarBelowTheMostProbable) {
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

TEST(Sampler, AProcessorComesLastAndBringsBackNothingThatAGrammarRulesOut) {
  const std::vector<std::int32_t> history{1, 2};
  std::vector<std::int32_t> seen;
  SamplingOptions options{.temperature = 0, .logit_bias = {{2, 5.0F}}};
  options.logits_processor = [&](std::span<float> logits, std::span<const std::int32_t> tokens) {
    seen.assign(tokens.begin(), tokens.end());
    EXPECT_EQ(logits[2], 7.0F);
    logits[4] = 100;
    logits[0] = 50;
  };
  EXPECT_EQ(Sampler(options)(kLogits, history, 1), 4);
  EXPECT_EQ(seen, history);
  grammar::TokenMask allowed(5);
  allowed.add(0);
  allowed.add(1);
  EXPECT_EQ(Sampler(options)(kLogits, history, 1, &allowed), 0);
}

TEST(Sampler, AProcessorThatBreaksLogitsIsNamed) {
  for (const float broken :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    SamplingOptions options;
    options.logits_processor = [broken](std::span<float> logits, std::span<const std::int32_t>) {
      logits[3] = broken;
    };
    try {
      Sampler sampler(options);
      sampler(kLogits);
      FAIL() << "not refused";
    } catch (const NonFinite& error) {
      EXPECT_NE(std::string(error.what()).find("logits processor"), std::string::npos) << error.what();
    }
  }
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

TEST(Sampler, TemperaturesNearZeroAndHugeLogitsDrawTheMostProbable) {
  for (const double temperature : {1e-300, 1e-40, 1e-6, 1e-5, 1e-3})
    EXPECT_EQ(draw({.temperature = temperature, .top_p = 0.9}, 20).begin()->first, 1) << temperature;
  for (const float scale : {1e9F, 1e20F, 1e37F}) {
    std::vector<float> logits = kLogits;
    for (float& logit : logits) logit *= scale;
    logits[3] = logits[2];
    for (const double temperature : {1e-5, 0.5, 2.0}) {
      for (const double top_p : {0.9, 1.0}) {
        Sampler sampler({.temperature = temperature, .top_p = top_p});
        EXPECT_EQ(sampler(logits), 1) << scale << " " << temperature;
        EXPECT_EQ(sampler.distribution(logits, {}).size(), 1U);
      }
    }
  }
}

TEST(Sampler, ABiasOrPenaltyThatLeavesNoFiniteLogitIsNamed) {
  SamplingOptions options{.repetition_penalty = 1e-300};
  Sampler sampler(options);
  const std::vector<std::int32_t> history{1};
  try {
    sampler(kLogits, history);
    FAIL() << "no error";
  } catch (const NonFinite& e) {
    EXPECT_NE(std::string(e.what()).find("logit_bias or a penalty"), std::string::npos) << e.what();
  }
}

TEST(Sampler, AMaskedLogitIsNeverDrawn) {
  Sampler sampler({.temperature = 10.0});
  const std::vector<float> logits{0.0F, -std::numeric_limits<float>::infinity(), 0.0F};
  for (int i = 0; i < 1000; ++i) EXPECT_NE(sampler(logits), 1);
}

// Logits like a vocabulary's, and the tokens from the most probable on.
struct Vocabulary {
  explicit Vocabulary(std::size_t size, float spread) : logits(size), ranked(size) {
    Rng rng(RngKey{11, 1});
    for (float& logit : logits) logit = static_cast<float>(rng.normal()) * spread;
    std::iota(ranked.begin(), ranked.end(), 0);
    std::ranges::stable_sort(ranked, [&](std::int32_t a, std::int32_t b) { return logit(a) > logit(b); });
  }
  float logit(std::int32_t id) const { return logits[static_cast<std::size_t>(id)]; }
  double weight(std::int32_t id) const { return std::exp(static_cast<double>(logit(id) - logit(ranked[0]))); }
  std::vector<float> logits;
  std::vector<std::int32_t> ranked;
};

TEST(Sampler, DrawsFollowTheSoftmaxOfALargeVocabulary) {
  for (const float spread : {0.3F, 3.0F, 40.0F}) {  // nearly flat; a language model's; one token alone
    const Vocabulary v(2000, spread);
    std::vector<double> share(10);
    double total = 0;
    for (std::size_t rank = 0; rank < v.ranked.size(); ++rank) {
      share[static_cast<std::size_t>(v.ranked[rank]) % share.size()] += v.weight(v.ranked[rank]);
      total += v.weight(v.ranked[rank]);
    }
    Sampler sampler({.temperature = 1.0, .seed = 3});
    const int n = 6000;
    std::vector<int> counts(share.size());
    for (int i = 0; i < n; ++i) ++counts[static_cast<std::size_t>(sampler(v.logits)) % counts.size()];
    for (std::size_t i = 0; i < share.size(); ++i) {
      const double p = share[i] / total;
      EXPECT_NEAR(counts[i] / static_cast<double>(n), p, 5 * std::sqrt(p * (1 - p) / n) + 1e-12)
          << spread << " " << i;
    }
  }
}

TEST(Sampler, EveryRestrictionOfALargeVocabularyLeavesExactlyTheMostProbable) {
  const Vocabulary v(2000, 0.5F);
  double total = 0;
  for (const std::int32_t id : v.ranked) total += v.weight(id);
  const auto least = [&](const SamplingOptions& options) {  // the least likely of many draws
    Sampler sampler(options);
    std::ptrdiff_t worst = 0;
    for (int i = 0; i < 6000; ++i)
      worst = std::max(worst, std::ranges::find(v.ranked, sampler(v.logits)) - v.ranked.begin());
    return worst;
  };
  EXPECT_EQ(least({.temperature = 1.0, .top_k = 100}), 99);
  double reached = 0;
  std::ptrdiff_t nucleus = 0;
  while (reached < 0.1 * total) reached += v.weight(v.ranked[static_cast<std::size_t>(nucleus++)]);
  EXPECT_EQ(least({.temperature = 1.0, .top_p = 0.1}), nucleus - 1);
  const auto likely = std::ranges::find_if(v.ranked, [&](std::int32_t id) { return v.weight(id) < 0.4; });
  EXPECT_EQ(least({.temperature = 1.0, .min_p = 0.4}), likely - v.ranked.begin() - 1);
}

TEST(LogitPasses, WeightsAreThoseOfTheExponential) {
  for (double d = 0; d > -87; d -= 0.0137) {
    const auto x = static_cast<float>(d);
    EXPECT_NEAR(exp_weight(x) / std::exp(static_cast<double>(x)), 1, 2e-7) << d;
  }
  EXPECT_EQ(exp_weight(0), 1);
  EXPECT_EQ(exp_weight(-88), 0);
  EXPECT_EQ(exp_weight(-std::numeric_limits<float>::infinity()), 0);
}

// So a draw is the same whatever the processor's vectors hold.
TEST(LogitPasses, SumsHaveTheBitsOfSixteenPartsAddedUpOneByOne) {
  std::vector<float> logits;
  logits.reserve(1003);
  for (int i = 0; i < 1003; ++i) logits.push_back(-0.37F * static_cast<float>((i * 131) % 509));
  std::array<double, 16> parts{};
  const std::size_t whole = logits.size() / parts.size() * parts.size();
  for (std::size_t i = 0; i < whole; ++i)
    parts[i % parts.size()] += static_cast<double>(exp_weight(logits[i] - 0.5F));
  double sum = 0;
  for (const double part : parts) sum += part;
  for (std::size_t i = whole; i < logits.size(); ++i)
    sum += static_cast<double>(exp_weight(logits[i] - 0.5F));
  EXPECT_EQ(sum_exp_weights(logits, 0.5F), sum);
}

TEST(LogitPasses, OfAnyLengthSeeEveryLogit) {
  for (const std::size_t size : {0U, 1U, 3U, 16U, 17U, 35U, 64U}) {
    std::vector<float> logits;
    for (std::size_t i = 0; i < size; ++i) logits.push_back(-static_cast<float>((i * 7) % 67));
    double expected = 0;
    for (const float logit : logits) expected += static_cast<double>(exp_weight(logit));
    EXPECT_NEAR(sum_exp_weights(logits, 0), expected, 1e-12) << size;
    for (std::size_t at = 0; at < size; ++at) {
      std::vector<float> one = logits;
      one[at] = 5;
      EXPECT_EQ(largest_logit(one), 5);
      std::vector<std::size_t> found;
      for_each_between(one, 4, 6, [&](std::size_t i) { found.push_back(i); });
      EXPECT_EQ(found, std::vector<std::size_t>{at});
      divide_logits(one, 2);
      EXPECT_EQ(one[at], 2.5F);
      one[at] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan(largest_logit(one))) << size << " " << at;
    }
  }
}

TEST(Sampler, AllowedTokensAloneComeWhateverElseIsAsked) {
  Rng rng(5);
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<float> logits(50);
    for (float& logit : logits) logit = static_cast<float>(rng.normal()) * 3;
    SamplingOptions options{.temperature = seed % 3 == 0 ? 0.0 : 1.5,
                            .top_p = seed % 2 == 0 ? 1.0 : 0.6,
                            .repetition_penalty = seed % 5 == 0 ? 1.3 : 1.0,
                            .seed = seed};
    for (std::uint64_t count = 1 + rng.below(5); count > 0; --count)
      options.allowed_tokens.push_back(static_cast<std::int32_t>(rng.below(50)));
    if (seed % 4 == 0) options.logit_bias = {{static_cast<std::int32_t>(rng.below(50)), 20.0F}};
    options.allowed_tokens.push_back(1000);  // outside the vocabulary: counts as nothing
    Sampler sampler(options);
    for (int draw = 0; draw < 20; ++draw) {
      const std::int32_t token = sampler(logits, std::vector<std::int32_t>{1, 2, 3}, 1);
      EXPECT_NE(std::ranges::find(options.allowed_tokens, token), options.allowed_tokens.end());
    }
  }
}

TEST(Sampler, DynamicTemperatureOfASureModelIsTheLowest) {
  std::vector<float> logits(100, 0.0F);
  logits[7] = 80;
  EXPECT_NEAR(dynamic_temperature(logits, 80, 1, 0.6, 1), 0.4, 1e-9);
  logits[7] = 0;
  EXPECT_NEAR(dynamic_temperature(logits, 0, 1, 0.6, 1), 1.6, 1e-9);
  EXPECT_NEAR(dynamic_temperature(logits, 0, 0.5, 0.9, 3), 1.4, 1e-9);
  logits[7] = std::numeric_limits<float>::infinity() * -1;
  EXPECT_LT(dynamic_temperature(logits, 0, 1, 0.6, 1), 1.6);
  EXPECT_THROW(Sampler({.dynatemp_range = -1}), InvalidConfig);
  EXPECT_THROW(Sampler({.dynatemp_exponent = 0}), InvalidConfig);
  EXPECT_THROW(Sampler({.min_keep = -1}), InvalidConfig);
}

}  // namespace
}  // namespace ingot
