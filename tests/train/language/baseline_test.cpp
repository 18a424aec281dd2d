#include "ingot/train/language/baseline.h"

#include <cmath>
#include <memory>

#include <gtest/gtest.h>

namespace ingot {
namespace {

data::DocumentSet documents(std::vector<std::int32_t> tokens, std::vector<std::int64_t> ends) {
  return data::DocumentSet::all(std::make_shared<data::TokenStore>(std::move(tokens), std::move(ends), 4));
}

// By hand: bigrams (0,1) twice and (1,0) once, so after 0: c = 2 of 2, one follower kind; unigrams (as
// successors) 1: 2, 0: 1, two kinds; p_uni(1) = (2 + 2/4) / 5 = 0.5, p(1|0) = (2 + 0.5) / 3.
TEST(BigramLoss, EqualsACalculationByHand) {
  const auto train = documents({0, 1, 0, 1}, {4});
  EXPECT_NEAR(bigram_loss(train, documents({0, 1}, {2}), 4), -std::log(2.5 / 3), 1e-12);
}

TEST(BigramLoss, GivesUnseenTokensAFiniteLossAndCountsNoPairAcrossDocuments) {
  const auto train = documents({0, 1, 0, 1}, {4});
  const double unseen = bigram_loss(train, documents({3, 2}, {2}), 4);
  EXPECT_NEAR(unseen, -std::log((0 + 2.0 / 4) / 5), 1e-12);
  EXPECT_EQ(bigram_loss(train, documents({3, 2}, {1, 2}), 4), 0);
}

}  // namespace
}  // namespace ingot
