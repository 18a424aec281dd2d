#include <algorithm>
#include <cmath>

#include "scene.h"
#include <gtest/gtest.h>

#include "ingot/mahjong/arena.h"
#include "ingot/mahjong/place_utility.h"
#include "ingot/mahjong/threat.h"

namespace ingot::mahjong {
namespace {

Action choice(const Table& table, int player) {
  return RuleBasedPlayer().select(observe(table, player), legal_actions(table, player));
}

TEST(RuleBasedPlayer, DecidesTheSameWhateverIsHidden) {
  int compared = 0;
  RuleBasedPlayer program;
  Table t = start_game(Rules::tenhou(), seed_from_number(77));
  while (!t.over() && compared < 400) {
    if (t.pub.phase == Phase::RoundOver) {
      next_round(t);
      continue;
    }
    const unsigned asked = t.to_act();
    for (int player = 0; player < 4 && t.to_act() != 0; ++player) {
      if ((asked >> player & 1) == 0) continue;
      Table other = t;  // the others' tiles and the wall are others
      for (int p = 0; p < 4; ++p)
        if (p != player) other.own[static_cast<std::size_t>(p)] = t.own[static_cast<std::size_t>(player)];
      std::reverse(other.wall.begin(), other.wall.end());
      other.session = Seed{};
      const Action action = program.select(observe(t, player), legal_actions(t, player));
      ASSERT_EQ(action, choice(other, player)) << to_string(action);
      apply(t, player, action);
      ++compared;
    }
  }
  EXPECT_GE(compared, 400);
}

TEST(RuleBasedPlayer, BeatsTheSimpleOne) {
  ArenaOptions options;
  options.walls = 30;
  options.rules.length = GameLength::East;
  const Entrant simple{.name = "simple", .make = player_named("simple")};
  const ArenaReport report = run_arena(
      {Entrant{.name = "rule-based", .make = player_named("rule-based")}, simple, simple, simple}, options);
  EXPECT_LT(report.entrants[0].place.mean, 2.4);
  EXPECT_LT(report.tests[0].difference.mean, 0);
}

TEST(RuleBasedPlayer, DeclaresRiichiOnATwoSidedWait) {
  Scene scene({.hands = {"234m567p345s67s99p", "", "", ""}, .draws = "1z"});
  EXPECT_EQ(choice(scene.table, 0), Action::of(ActionType::Riichi));
  apply(scene.table, 0, Action::of(ActionType::Riichi));
  EXPECT_EQ(choice(scene.table, 0), Action::discard(tile("1z"), true));
}

TEST(RuleBasedPlayer, CallsDragonsForYaku) {
  Scene scene({.hands = {"55z44z23m678p4588s", "", "", ""}, .draws = "9s5z"});
  scene.discard("9s");
  apply(scene.table, 1, Action::discard(tile("5z"), true));
  ASSERT_TRUE(scene.may(0, pon("5z")));
  EXPECT_EQ(choice(scene.table, 0), pon("5z"));  // with a pair of dora
}

TEST(RuleBasedPlayer, FoldsAHopelessHandWithATileThatCannotLose) {
  Scene scene({.hands = {"159m247p2688s359m", "234m567p345s66s78p", "", ""}, .draws = "2z9m4z4z7z"});
  scene.discard("2z");
  scene.riichi("9m");
  scene.discard("4z");
  scene.discard("4z");
  ASSERT_EQ(scene.table.pub.actor, 0);
  const Action action = choice(scene.table, 0);
  ASSERT_EQ(action.type, ActionType::Discard);
  const Seat& declarer = scene.seat(1);
  EXPECT_TRUE(((declarer.river_kinds | declarer.safe_after_riichi) >> kind_of(action.tile) & 1) != 0)
      << to_string(action);
}

TEST(Threat, OfRiichiIsCertainAndLeavesOutWhatCannotWin) {
  Scene scene({.hands = {"159m247p2688s359m", "234m567p345s66s78p", "", ""}, .draws = "2z5m9p9s7z"});
  scene.discard("2z");
  scene.riichi("5m");
  scene.discard("9p");
  scene.discard("9s");
  const auto threats = read_threats(observe(scene.table, 0));
  const auto wait = [&](const char* text) { return threats[0].waits[kind_of(tile(text))]; };
  EXPECT_EQ(threats[0].tenpai, 1);
  EXPECT_LT(threats[1].tenpai, 0.1);
  for (const char* safe : {"5m", "9p", "9s"}) EXPECT_EQ(wait(safe), 0) << safe;
  EXPECT_LT(wait("8m"), 0.5 * wait("8s"));  // suji of 5m, beside no suji
  EXPECT_GT(wait("5p"), wait("1p"));        // two two-sided waits, beside one
  EXPECT_GT(threats[0].points, 4000);
  for (const double chance : threats[0].waits) EXPECT_TRUE(chance >= 0 && chance <= 1);
}

PlaceUtility utility_of(std::array<std::int32_t, 4> scores, int round) {
  const Scene scene({.round = round, .scores = scores});
  return PlaceUtility(observe(scene.table, 0));
}

TEST(PlaceUtility, InTheLastRoundCountsWhatReachesTheNextPlace) {
  const PlaceUtility second = utility_of({28000, 33000, 20000, 19000}, 7);
  EXPECT_GT(second.ron(8000) - second.ron(2000), 0.6);  // 33000 is passed, or not
  const PlaceUtility leader = utility_of({45000, 25000, 20000, 10000}, 7);
  EXPECT_LT(leader.ron(8000), 0.2);  // nothing to gain but points
  const PlaceUtility early = utility_of({25000, 25000, 25000, 25000}, 0);
  EXPECT_NEAR(early.ron(8000) / early.ron(4000), 2, 0.3);  // nearly linear
}

TEST(PlaceUtility, FallsWithWhatIsPaidAndRisesWithWhatIsWon) {
  for (const int round : {0, 3, 7}) {
    const PlaceUtility utility = utility_of({27000, 24000, 30000, 19000}, round);
    for (double points = 1000; points < 30000; points += 1000) {
      EXPECT_GT(utility.ron(points + 1000), utility.ron(points));
      EXPECT_GT(utility.tsumo(points + 1000), utility.tsumo(points));
      EXPECT_LT(utility.deal_in(1, points + 1000), utility.deal_in(1, points));
    }
    EXPECT_NEAR(utility.change({0, 0, 0, 0}), 0, 1e-12);
  }
}

}  // namespace
}  // namespace ingot::mahjong
