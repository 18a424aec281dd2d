#include "ingot/mahjong/arena.h"

#include <cmath>

#include <gtest/gtest.h>

#include "ingot/base/parallel.h"

namespace ingot::mahjong {
namespace {

std::array<Entrant, 4> one_against_three(const char* one, const char* others) {
  const Entrant rest{others, player_named(others)};
  return {Entrant{one, player_named(one)}, rest, rest, rest};
}

TEST(Arena, EqualPlayersAreEqual) {
  ArenaOptions options;
  options.walls = 40;
  const Entrant e{"tsumogiri", player_named("tsumogiri")};
  const ArenaReport report = run_arena({e, e, e, e}, options);
  ASSERT_EQ(report.entrants.size(), 1U);
  EXPECT_DOUBLE_EQ(report.entrants[0].place.mean, 2.5);
  EXPECT_NEAR(report.entrants[0].score.mean, 0.0, 1e-9);
}

TEST(Arena, ADeterministicPlayerInAllSeatsOfOneWallMakesTheSameGameFourTimes) {
  ArenaOptions options;
  options.walls = 3;
  const ArenaReport report = run_arena(one_against_three("first-legal", "tsumogiri"), options);
  EXPECT_EQ(report.games, 12);
  EXPECT_EQ(report.entrants[0].games, 12);
  EXPECT_EQ(report.entrants[1].games, 36);
}

// Built-in players end all the games that are played together at once: the next ones have to follow.
TEST(Arena, PlaysEveryWallWhereMoreGamesAreAskedForThanArePlayedTogether) {
  ArenaOptions options;
  options.walls = 70;  // 280 games
  options.rules.length = GameLength::SingleRound;
  const ArenaReport report = run_arena(one_against_three("first-legal", "tsumogiri"), options);
  EXPECT_EQ(report.entrants[0].games, 280);
  EXPECT_EQ(report.entrants[1].games, 840);
  EXPECT_FALSE(std::isnan(report.tests[0].difference.mean));
}

TEST(Arena, TheHonestPlayersBeatTheOthers) {
  ArenaOptions options;
  options.walls = 8;
  for (const char* honest : {"simple", "rule-based"})
    for (const char* weak : {"random", "tsumogiri"}) {
      const ArenaReport report = run_arena(one_against_three(honest, weak), options);
      EXPECT_LT(report.entrants[0].place.mean + report.entrants[0].place.half_width, 2.0) << honest << weak;
      EXPECT_GT(report.entrants[0].win.mean, 0.25) << honest << weak;
    }
}

TEST(Arena, TheReportDoesNotDependOnThreads) {
  ArenaOptions options;
  options.walls = 6;
  const int before = num_threads();
  set_num_threads(1);
  const ArenaReport one = run_arena(one_against_three("simple", "random"), options);
  set_num_threads(3);
  const ArenaReport three = run_arena(one_against_three("simple", "random"), options);
  set_num_threads(before);
  EXPECT_EQ(one.entrants[0].place.mean, three.entrants[0].place.mean);
  EXPECT_EQ(one.entrants[1].win.mean, three.entrants[1].win.mean);
  EXPECT_EQ(one.entrants[1].points.half_width, three.entrants[1].points.half_width);
  EXPECT_FALSE(format_report(one).empty());
}

// Tsumogiri that is asked for all games at once, and counts how often.
class Together : public BatchSelector {
 public:
  void select(std::span<const Decision> decisions, std::span<Action> actions) override {
    ++calls;
    most = std::max(most, decisions.size());
    for (std::size_t i = 0; i < decisions.size(); ++i) {
      chance_differs |= decisions[i].uniform != decisions[0].uniform;
      actions[i] = TsumogiriPlayer().select(decisions[i].observation, decisions[i].legal);
    }
  }
  int calls = 0;
  std::size_t most = 0;
  bool chance_differs = false;
};

TEST(Arena, ANetworkIsAskedForManyGamesAtOnceAndPlaysThemAsOneByOne) {
  ArenaOptions options;
  options.walls = 6;
  options.rules.length = GameLength::East;
  const auto together = std::make_shared<Together>();
  const Entrant batched{.name = "tsumogiri", .batch = together}, rest{"simple", player_named("simple")};
  const ArenaReport all = run_arena({batched, rest, rest, rest}, options);
  const ArenaReport single = run_arena(one_against_three("tsumogiri", "simple"), options);
  EXPECT_EQ(all.entrants[0].place.mean, single.entrants[0].place.mean);
  EXPECT_EQ(all.entrants[0].score.mean, single.entrants[0].score.mean);
  EXPECT_EQ(all.entrants[1].deal_in.half_width, single.entrants[1].deal_in.half_width);
  EXPECT_GE(together->most, 20U);
  EXPECT_TRUE(together->chance_differs);
}

TEST(Arena, AnIllegalAnswerOfANetworkNamesIt) {
  class Cheat : public BatchSelector {
    void select(std::span<const Decision>, std::span<Action> actions) override {
      for (Action& action : actions) action = Action::of(ActionType::Tsumo);
    }
  };
  ArenaOptions options;
  options.walls = 1;
  const Entrant cheat{.name = "model:cheat", .batch = std::make_shared<Cheat>()};
  try {
    run_arena({cheat, cheat, cheat, cheat}, options);
    ADD_FAILURE() << "was not refused";
  } catch (const IllegalAction& error) {
    EXPECT_NE(std::string(error.what()).find("model:cheat, player"), std::string::npos) << error.what();
  }
}

TEST(Arena, TestsOfPlacesTellTheBetterPlayerAndNothingOfEqualOnes) {
  ArenaOptions options;
  options.walls = 12;
  options.rules.length = GameLength::East;
  const ArenaReport report = run_arena(one_against_three("simple", "tsumogiri"), options);
  ASSERT_EQ(report.tests.size(), 1U);
  EXPECT_LT(report.tests[0].difference.mean, -0.5);
  EXPECT_LT(report.tests[0].p, 1e-3);
  EXPECT_NEAR(report.tests[0].difference.mean, report.entrants[0].place.mean - report.entrants[1].place.mean,
              1e-9);
  Entrant again{"again", player_named("tsumogiri")};
  const Entrant one{"one", player_named("tsumogiri")};
  const ArenaReport equal = run_arena({one, again, one, again}, options);
  EXPECT_GT(equal.tests[0].p, 0.9);  // the same games in all rotations
}

TEST(Arena, StudentsAndWelchsTestsAreThoseOfTheTables) {
  EXPECT_NEAR(student_p(2.228, 10), 0.05, 1e-4);
  EXPECT_NEAR(student_p(-2.228, 10), 0.05, 1e-4);
  EXPECT_NEAR(student_p(12.706, 1), 0.05, 1e-4);
  EXPECT_NEAR(student_p(0, 7), 1, 1e-12);
  EXPECT_NEAR(student_p(1.96, 1e7), 0.05, 1e-4);
  // scipy.stats.ttest_ind_from_stats(2.4, 10**0.5 * 0.02, 10, 2.5, 20**0.5 * 0.03, 20, equal_var=False)
  const Estimate a{2.4, kHalfWidthOfError * 0.02}, b{2.5, kHalfWidthOfError * 0.03};
  EXPECT_NEAR(welch_p(a, 10, b, 20), 0.00976155, 1e-7);
}

TEST(Arena, AnIllegalAnswerIsRefused) {
  class Cheat : public ActionSelector {
    Action select(const Observation&, const ActionList&) override { return Action::of(ActionType::Tsumo); }
  } cheat;
  EXPECT_THROW(play_game(Rules::tenhou(), seed_from_number(2), 0, {&cheat, &cheat, &cheat, &cheat}),
               IllegalAction);
}

TEST(TableBatch, StepsEveryTableAndPlaysTheSameGamesAsOneByOne) {
  TableBatch batch(Rules::tenhou(), seed_from_number(4), 50);
  std::size_t finished = 0, steps = 0;
  while (finished < 100 && ++steps < 100000) {
    std::vector<Action> actions;
    for (const auto& request : batch.requests())
      actions.push_back(TsumogiriPlayer().select(observe(batch.table(request.table), request.player),
                                                 legal_actions(batch.table(request.table), request.player)));
    batch.step(actions);
    if (finished < 50)
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const Table& table = batch.table(i);
        if (!table.over() || table.nonce >= 50) continue;
        TsumogiriPlayer p;
        const Table same = play_game(Rules::tenhou(), seed_from_number(4), table.nonce, {&p, &p, &p, &p});
        for (std::size_t s = 0; s < 4; ++s) ASSERT_EQ(same.pub.seats[s].score, table.pub.seats[s].score);
      }
    finished += batch.restart();
  }
  EXPECT_GE(finished, 100U);
  std::vector<Action> illegal(batch.requests().size(), Action::of(ActionType::Ron));
  EXPECT_THROW(batch.step(illegal), IllegalAction);
  EXPECT_THROW(batch.step({}), IllegalAction);
}

TEST(Players, UnknownNamesAreRefused) { EXPECT_THROW(player_named("genius"), InvalidConfig); }

}  // namespace
}  // namespace ingot::mahjong
