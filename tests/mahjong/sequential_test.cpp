#include "ingot/mahjong/sequential.h"

#include <array>
#include <random>

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/mahjong/arena.h"

namespace ingot::mahjong {
namespace {

struct Answers {
  double better = 0, no_better = 0, walls = 0;
};

// Walls as the arena has them: differences of places in steps of a third, far from normal.
Answers simulate(double mean, const SequentialOptions& options, int runs) {
  std::mt19937 random(7);
  Answers answers;
  for (int run = 0; run < runs; ++run) {
    SequentialTest test(options);
    while (test.verdict() == Verdict::Open && test.observations() < 100'000) {
      double difference = mean;
      for (int game = 0; game < 4; ++game)  // one of four places, the others' mean is what is left
        difference += (static_cast<double>(random() % 4) - 1.5) * 4 / 3 / 4;
      test.add(difference);
    }
    answers.better += test.verdict() == Verdict::Better ? 1.0 / runs : 0;
    answers.no_better += test.verdict() == Verdict::NoBetter ? 1.0 / runs : 0;
    answers.walls += static_cast<double>(test.observations()) / runs;
  }
  return answers;
}

TEST(SequentialTest, ErrsNoOftenerThanItSays) {
  for (const double error : {0.05, 0.1}) {
    const SequentialOptions options{.margin = 0.25, .error = error};
    const Answers equal = simulate(0, options, 3000), better = simulate(-0.25, options, 3000);
    EXPECT_LT(equal.better, 1.15 * error) << error;  // 1.15: two standard errors of 3000 runs
    EXPECT_LT(better.no_better, 1.15 * error) << error;
    EXPECT_GT(equal.better + better.no_better, 0.3 * error);  // and is not merely careful
    EXPECT_NEAR(equal.better + equal.no_better, 1, 1e-9);     // every run is decided
  }
}

TEST(SequentialTest, IsDecidedSoonerTheClearerTheDifference) {
  const SequentialOptions options{.margin = 0.2};
  const double clear = simulate(-0.8, options, 300).walls, margin = simulate(-0.2, options, 300).walls,
               between = simulate(-0.1, options, 300).walls;
  EXPECT_LT(clear, 0.6 * margin);
  EXPECT_LT(margin, between);
  // A test of fixed size with these errors needs (1.645 + 1.645)^2 variance / margin^2 walls.
  EXPECT_LT(margin, 0.8 * 3.29 * 3.29 * (4 * 1.25 / 9) / (0.2 * 0.2));
}

TEST(SequentialTest, StopsAnArenaThatIsDecidedAndTellsOfOneThatIsNot) {
  ArenaOptions options;
  options.walls = 1000;
  options.rules.length = GameLength::SingleRound;
  options.sequential = SequentialOptions{.margin = 0.3};
  const Entrant simple{.name = "simple", .make = player_named("simple")},
      weak{.name = "tsumogiri", .make = player_named("tsumogiri")};
  const ArenaReport decided = run_arena({simple, weak, weak, weak}, options);
  ASSERT_TRUE(decided.sequential.has_value());
  EXPECT_EQ(decided.sequential->verdict, Verdict::Better);
  EXPECT_GE(decided.sequential->walls, 32);
  EXPECT_LT(decided.games, 4000);
  EXPECT_NE(format_report(decided).find("sequential test: better after"), std::string::npos);
  EXPECT_EQ(run_arena({weak, simple, simple, simple}, options).sequential->verdict, Verdict::NoBetter);
  options.walls = 20;
  const ArenaReport open = run_arena({simple, weak, weak, weak}, options);
  EXPECT_EQ(open.sequential->verdict, Verdict::Open);
  EXPECT_EQ(open.games, 80);
  EXPECT_THROW(run_arena({weak, weak, weak, weak}, options), InvalidConfig);
}

TEST(WallBanks, AreFixedAndApart) {
  EXPECT_EQ(wall_bank("evaluation").seed, 0x2000U);
  EXPECT_EQ(wall_bank("ablation").seed, 0x2001U);
  EXPECT_EQ(wall_bank("evaluation").walls, 50'000);
  EXPECT_THROW(wall_bank("training"), InvalidConfig);
}

TEST(SequentialTest, RefusesWhatCannotBeTested) {
  EXPECT_THROW(SequentialTest({.margin = 0}), InvalidConfig);
  EXPECT_THROW(SequentialTest({.margin = 0.1, .error = 0.5}), InvalidConfig);
  EXPECT_THROW(SequentialTest({.margin = 0.1, .error = 0}), InvalidConfig);
  EXPECT_THROW(SequentialTest({.margin = 0.1, .error = 0.1, .least = 1}), InvalidConfig);
}

}  // namespace
}  // namespace ingot::mahjong
