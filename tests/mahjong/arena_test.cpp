#include "ingot/mahjong/arena.h"

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

TEST(Arena, TheRuleBasedPlayerBeatsTheSimpleOnes) {
  ArenaOptions options;
  options.walls = 25;
  for (const char* weak : {"random", "tsumogiri"}) {
    const ArenaReport report = run_arena(one_against_three("rule-based", weak), options);
    EXPECT_LT(report.entrants[0].place.mean + report.entrants[0].place.half_width, 2.0) << weak;
    EXPECT_GT(report.entrants[0].win.mean, 0.25) << weak;
  }
}

TEST(Arena, TheReportDoesNotDependOnThreads) {
  ArenaOptions options;
  options.walls = 6;
  const int before = num_threads();
  set_num_threads(1);
  const ArenaReport one = run_arena(one_against_three("rule-based", "random"), options);
  set_num_threads(3);
  const ArenaReport three = run_arena(one_against_three("rule-based", "random"), options);
  set_num_threads(before);
  EXPECT_EQ(one.entrants[0].place.mean, three.entrants[0].place.mean);
  EXPECT_EQ(one.entrants[1].win.mean, three.entrants[1].win.mean);
  EXPECT_EQ(one.entrants[1].points.half_width, three.entrants[1].points.half_width);
  EXPECT_FALSE(format_report(one).empty());
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
