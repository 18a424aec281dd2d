// Who may do what: furiten, riichi, swap calls, priority, the last tile.
#include "tests/mahjong/scene.h"

namespace ingot::mahjong {
namespace {

// Player 0 (dealer) waits for 6s and 9s, pinfu and ittsu.
constexpr const char* kReady = "123456789m11p78s";

TEST(Scenario, AWaitInTheOwnRiverBarsRonOnEveryWaitButNotTsumo) {
  Deal s;
  s.hands[0] = kReady;
  s.draws = "9s6s4z4z6s";
  Scene scene(s);
  scene.discard("9s");
  EXPECT_FALSE(scene.may(0, ActionType::Ron));
  scene.discard("6s");
  EXPECT_FALSE(scene.may(0, ActionType::Ron));
  scene.discard("4z");
  scene.discard("4z");
  EXPECT_TRUE(scene.may(0, ActionType::Tsumo));
}

TEST(Scenario, ADiscardThatWasCalledStillMakesFuriten) {
  Deal s;
  s.hands[0] = kReady;
  s.hands[2] = "99s147m258p1234z6z";
  s.draws = "9s6s";
  Scene scene(s);
  scene.discard("9s", {{2, pon("9s")}});
  scene.discard("6z");
  EXPECT_EQ(scene.table.pub.actor, 3);
  scene.discard("6s");
  EXPECT_FALSE(scene.may(0, ActionType::Ron));
}

TEST(Scenario, PassingARonBarsItUntilTheOwnNextDiscard) {
  Deal s;
  s.hands[0] = kReady;
  s.draws = "4z6s9s4z4z9s";
  Scene scene(s);
  scene.discard("4z");
  scene.discard("6s");  // player 0 passes
  apply(scene.table, scene.table.pub.actor, Action::discard(tile("9s"), true), &scene.events);
  EXPECT_FALSE(scene.may(0, ActionType::Ron)) << "the same turn";
  while (scene.table.pub.phase == Phase::Reaction)
    apply(scene.table, __builtin_ctz(scene.table.to_act()), Action::pass(), &scene.events);
  scene.discard("4z");
  scene.discard("4z");  // its own
  apply(scene.table, scene.table.pub.actor, Action::discard(tile("9s"), true), &scene.events);
  EXPECT_TRUE(scene.may(0, ActionType::Ron));
}

TEST(Scenario, AShapeWithoutYakuMakesFuritenToo) {
  Deal s;
  s.hands[0] = "22m456p789s123s44m";  // shanpon 2m 4m, no yaku without riichi
  s.draws = "4z4m2m";
  Scene scene(s);
  scene.discard("4z");
  EXPECT_FALSE(scene.may(0, ActionType::Ron));
  scene.discard("4m");
  EXPECT_TRUE(is_furiten(scene.table.pub, scene.own(0), 0));
}

TEST(Scenario, PassingARonAfterRiichiBarsItForGood) {
  Deal s;
  s.hands[0] = kReady;
  s.draws = "4z6s4z4z5z9s";
  Scene scene(s);
  scene.riichi("4z");
  scene.discard("6s");
  scene.discard("4z");
  scene.discard("4z");
  scene.discard("5z");
  apply(scene.table, 1, Action::discard(tile("9s"), true), &scene.events);
  EXPECT_FALSE(scene.may(0, ActionType::Ron));
  EXPECT_TRUE(scene.own(0).passed_in_riichi);
}

TEST(Scenario, RiichiNeedsAClosedHandAThousandPointsAndFourTiles) {
  Deal s;
  s.hands[0] = kReady;
  s.draws = "4z";
  EXPECT_TRUE(Scene(s).may(0, ActionType::Riichi));
  s.scores = {900, 33100, 33000, 33000};
  EXPECT_FALSE(Scene(s).may(0, ActionType::Riichi));
  EXPECT_TRUE(Scene(s, Rules::european()).may(0, ActionType::Riichi)) << "may go below zero there";
  s.scores = {1000, 33000, 33000, 33000};
  Scene exact(s);
  exact.riichi("4z");
  EXPECT_EQ(exact.seat(0).score, 0);
  s.scores = {25000, 25000, 25000, 25000};
  for (const int turns : {64, 68}) {  // player 0 draws with 5 and 1 tiles left
    Scene scene(s);
    scene.discard("4z");
    scene.pass_turns(turns - 1);
    ASSERT_EQ(scene.table.pub.actor, 0);
    EXPECT_EQ(scene.may(0, ActionType::Riichi), scene.table.pub.live_left >= 4);
    EXPECT_EQ(scene.table.pub.live_left, 69 - turns);
  }
  Rules rules;
  rules.riichi_min_wall = 1;
  Scene late(s, rules);
  late.discard("4z");
  late.pass_turns(67);
  EXPECT_TRUE(late.may(0, ActionType::Riichi)) << "with one tile left, where the rules say so";
  rules.riichi_needs_points = false;
  s.scores = {900, 33100, 33000, 33000};
  EXPECT_TRUE(Scene(s, rules).may(0, ActionType::Riichi));
  s.scores = {25000, 25000, 25000, 25000};
  s.hands[0] = "77z123456m11p789s";
  s.draws = "4z7z9m";
  Scene open(s);
  open.discard("4z");
  open.discard("7z", {{0, pon("7z")}});
  open.discard("1p");
  open.pass_turns(3);
  EXPECT_EQ(open.table.pub.actor, 0);
  EXPECT_FALSE(open.may(0, ActionType::Riichi));
}

TEST(Scenario, ARiichiDiscardMustLeaveATenpai) {
  Deal s;
  s.hands[0] = kReady;
  s.draws = "4z";
  Scene scene(s);
  apply(scene.table, 0, Action::of(ActionType::Riichi));
  for (const Action& action : legal_actions(scene.table, 0)) {
    Table copy = scene.table;
    apply(copy, 0, action);
    EXPECT_NE(copy.own[0].waits, KindSet{0}) << to_string(action);
  }
  EXPECT_FALSE(scene.may(0, Action::discard(tile("5m"), false)));
}

TEST(Scenario, SwapCallsAreForbidden) {
  Deal s;
  s.hands[1] = "2345m66p147s1256z";
  s.draws = "2m";
  Scene both(s);
  both.discard("2m", {{1, chi("2m", "34m")}});
  EXPECT_FALSE(both.may(1, Action::discard(tile("2m"), false)));
  EXPECT_FALSE(both.may(1, Action::discard(tile("5m"), false)));
  EXPECT_TRUE(both.may(1, Action::discard(tile("6p"), false)));
  Rules same_tile, allowed;
  same_tile.kuikae = Kuikae::SameTileForbidden;
  allowed.kuikae = Kuikae::Allowed;
  Scene half(s, same_tile);
  half.discard("2m", {{1, chi("2m", "34m")}});
  EXPECT_FALSE(half.may(1, Action::discard(tile("2m"), false)));
  EXPECT_TRUE(half.may(1, Action::discard(tile("5m"), false)));
  Scene free(s, allowed);
  free.discard("2m", {{1, chi("2m", "34m")}});
  EXPECT_TRUE(free.may(1, Action::discard(tile("2m"), false)));
}

TEST(Scenario, AMiddleTileCallForbidsOnlyItself) {
  Deal s;
  s.hands[1] = "24m3m66p147s1256z";
  s.draws = "3m";
  Scene scene(s);
  scene.discard("3m", {{1, chi("3m", "24m")}});
  EXPECT_EQ(scene.table.pub.kuikae, bit(tile("3m")));
  s.hands[1] = "666p147s125678m9s";
  s.draws = "6p";
  Scene triplet(s);
  triplet.discard("6p", {{1, pon("6p")}});
  EXPECT_FALSE(triplet.may(1, Action::discard(tile("6p"), false)));
}

TEST(Scenario, ACallThatLeavesNoLegalDiscardIsIllegal) {
  Deal s;
  s.hands[1] = "556677z2345m1s5s9s";
  s.draws = "567z8p8p2m";
  Scene scene(s);
  scene.discard("5z", {{1, pon("5z")}});
  scene.discard("1s");
  scene.discard("6z", {{1, pon("6z")}});
  scene.discard("5s");
  scene.discard("7z", {{1, pon("7z")}});
  scene.discard("9s");
  scene.pass_turns(2);
  apply(scene.table, 0, Action::discard(tile("2m"), true));
  EXPECT_TRUE(scene.may(1, ActionType::Ron));
  EXPECT_FALSE(scene.may(1, ActionType::Chi)) << "with 34m it would have to throw 2m or 5m";
}

TEST(Scenario, RonComesBeforePonAndPonBeforeChi) {
  Deal s;
  s.hands = {"", "57s147m258p12345z", "66s147p28p1122z77z", kReady};
  s.draws = "6s";
  Scene all(s);
  all.discard("6s", {{1, chi("6s", "57s")}, {2, pon("6s")}, {3, ron()}});
  EXPECT_EQ(all.last(EventType::Hora).actor, 3);
  Scene two(s);
  two.discard("6s", {{1, chi("6s", "57s")}, {2, pon("6s")}});
  EXPECT_EQ(two.count(EventType::Chi), 0);
  EXPECT_EQ(two.last(EventType::Pon).actor, 2);
  Scene one(s);
  one.discard("6s", {{1, chi("6s", "57s")}});
  EXPECT_EQ(one.last(EventType::Chi).actor, 1);
}

TEST(Scenario, OnlyTheNextPlayerMayChi) {
  Deal s;
  s.hands[2] = "57s147m258p12345z";
  s.draws = "6s";
  Scene scene(s);
  apply(scene.table, 0, Action::discard(tile("6s"), true));
  EXPECT_FALSE(scene.may(2, ActionType::Chi));
}

// Player 1 draws the last tile; with `hand` it or another may win on it.
TEST(Scenario, TheLastTileGivesHaiteiByTsumoAndHouteiByRon) {
  Deal s;
  s.hands[1] = "123m456p789p22s46s";  // no yaku but the last tile's
  Scene scene(s);
  scene.pass_turns(69);
  ASSERT_EQ(scene.table.pub.actor, 1);
  // Put 5s where the last tile was drawn from: the rules see tile, hand and wall alike.
  Table& table = scene.table;
  const Tile drawn = table.own[1].drawn;
  table.own[1].hand.remove(drawn);
  table.own[1].hand.add(tile("5s"));
  table.own[1].drawn = tile("5s");
  apply(table, 1, tsumo(), &scene.events);
  EXPECT_TRUE(scene.last(EventType::Hora).win.has(Yaku::Haitei));
}

}  // namespace
}  // namespace ingot::mahjong
