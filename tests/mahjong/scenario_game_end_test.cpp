// When a game ends, and with which scores.
#include "tests/mahjong/scene.h"

namespace ingot::mahjong {
namespace {

using Scores = std::array<std::int32_t, 4>;

// `winner` waits for 6s with pinfu and ittsu (3900, the dealer 5800) and gets it from the player after the
// dealer's first discard; if the winner is that player, by its own draw.
Scene ron_in(int round, int winner, const Scores& scores, const Rules& rules = {}, int honba = 0) {
  Deal s;
  s.round = round;
  s.honba = honba;
  s.scores = scores;
  s.hands[static_cast<std::size_t>(winner)] = "123456789m11p78s";
  const int dealer = round % 4, next = (dealer + 1) % 4;
  s.draws = winner == dealer ? "7z6s" : "6s";
  Scene scene(s, rules);
  if (winner == dealer) {
    scene.discard("7z");
    EXPECT_EQ(scene.table.pub.actor, next);
  }
  scene.discard("6s", {{winner, ron()}});
  return scene;
}

TEST(Scenario, ADealerWhoWinsTheLastRoundInTheLeadEndsTheGame) {
  const Scores lead = {24000, 25000, 26000, 25000};
  EXPECT_TRUE(ron_in(7, 3, lead).table.over());  // 30800
  Rules rules;
  rules.agari_yame = false;
  EXPECT_FALSE(ron_in(7, 3, lead, rules).table.over());
  EXPECT_FALSE(ron_in(7, 3, {25000, 25500, 25500, 24000}).table.over()) << "29800 is not the target";
  EXPECT_FALSE(ron_in(7, 3, {19000, 31000, 25000, 25000}).table.over()) << "30800 is second";
  EXPECT_FALSE(ron_in(7, 3, {18400, 30800, 25800, 25000}).table.over()) << "equal: the earlier seat leads";
  const Scene stays = ron_in(7, 3, {19000, 31000, 25000, 25000});
  EXPECT_EQ(next_start(stays.table).round, 7);
  EXPECT_EQ(next_start(stays.table).honba, 1);
  EXPECT_FALSE(ron_in(6, 2, {24000, 25000, 25000, 26000}).table.over()) << "South 3 is not the last round";
}

TEST(Scenario, ADealerTenpaiInTheLeadEndsTheGameAtTheLastDraw) {
  Deal s;
  s.round = 7;
  s.scores = {22000, 23000, 23000, 32000};
  s.hands[3] = "123456789m11p78s";
  Scene ends(s);
  ends.pass_turns();
  EXPECT_TRUE(ends.table.over());
  EXPECT_EQ(ends.scores(), (Scores{21000, 22000, 22000, 35000}));
  Rules rules;
  rules.tenpai_yame = false;
  Scene goes_on(s, rules);
  goes_on.pass_turns();
  EXPECT_EQ(goes_on.table.pub.phase, Phase::RoundOver);
  EXPECT_EQ(next_start(goes_on.table).round, 7);
  s.scores = {40000, 14000, 14000, 32000};
  Scene second(s);
  second.pass_turns();
  EXPECT_FALSE(second.table.over());
}

TEST(Scenario, AnAbortiveDrawNeverEndsTheLastRound) {
  Deal s;
  s.round = 7;
  s.scores = {20000, 20000, 20000, 40000};
  s.draws = "1111z";
  Scene scene(s);
  for (int i = 0; i < 4; ++i) scene.discard("1z");
  EXPECT_FALSE(scene.table.over());
  EXPECT_EQ(next_start(scene.table).round, 7);
  EXPECT_EQ(next_start(scene.table).honba, 1);
}

TEST(Scenario, TheGameEndsWhenSomebodyFallsBelowZeroButNotAtZero) {
  EXPECT_TRUE(ron_in(0, 1, {3800, 32000, 32000, 32200}).table.over());
  EXPECT_FALSE(ron_in(0, 1, {3900, 32000, 32000, 32100}).table.over());
  Rules rules;
  rules.bust = false;
  EXPECT_FALSE(ron_in(0, 1, {3800, 32000, 32000, 32200}, rules).table.over());
}

TEST(Scenario, ANonDealersWinInTheLastRoundEndsTheGameIfAnybodyHasTheTarget) {
  EXPECT_TRUE(ron_in(7, 1, {25000, 25000, 30000, 20000}).table.over());
  const Scene west = ron_in(7, 1, {25000, 25000, 25500, 24500});
  EXPECT_FALSE(west.table.over());
  EXPECT_EQ(next_start(west.table).round, 8) << "West 1";
  Rules rules;
  rules.extension = false;
  EXPECT_TRUE(ron_in(7, 1, {25000, 25000, 25500, 24500}, rules).table.over());
  Rules lower;
  lower.target_points = 28000;
  EXPECT_TRUE(ron_in(7, 1, {25000, 25000, 25500, 24500}, lower).table.over());
}

TEST(Scenario, InTheExtensionTheGameEndsAsSoonAsSomebodyHasTheTarget) {
  EXPECT_TRUE(ron_in(8, 1, {24000, 26100, 25000, 24900}).table.over());
  EXPECT_FALSE(ron_in(8, 1, {25000, 25000, 25000, 25000}).table.over());
  EXPECT_TRUE(ron_in(8, 0, {25000, 24000, 26000, 25000}).table.over()) << "a dealer in the lead";
  EXPECT_TRUE(ron_in(11, 1, {25000, 25000, 25000, 25000}).table.over()) << "there is no North";
  EXPECT_FALSE(ron_in(11, 3, {25000, 25500, 25500, 24000}).table.over()) << "the dealer stays";
}

TEST(Scenario, AnEastGameEndsAfterEastFourOrExtendsIntoSouth) {
  Rules east;
  east.length = GameLength::East;
  EXPECT_TRUE(ron_in(3, 1, {25000, 27000, 25000, 23000}, east).table.over());
  const Scene south = ron_in(3, 1, {25000, 25000, 25000, 25000}, east);
  EXPECT_FALSE(south.table.over());
  EXPECT_EQ(next_start(south.table).round, 4);
  EXPECT_TRUE(ron_in(7, 1, {25000, 25000, 25000, 25000}, east).table.over());
  Rules single;
  single.length = GameLength::SingleRound;
  EXPECT_TRUE(ron_in(0, 1, {25000, 25000, 25000, 25000}, single).table.over());
}

TEST(Scenario, SticksLeftAtTheEndGoToTheFirst) {
  Deal s;
  s.round = 7;
  s.sticks = 2;
  s.scores = {31000, 31000, 18000, 18000};
  Scene scene(s);
  scene.pass_turns();
  EXPECT_TRUE(scene.table.over());
  EXPECT_EQ(scene.scores(), (Scores{33000, 31000, 18000, 18000}));
}

TEST(Scenario, EqualScoresRankByTheFirstSeatOrShareWhereTheRulesSaySo) {
  const Scores scores = {20000, 35000, 10000, 35000};
  const GameResult tenhou = game_result(scores, Rules::tenhou());
  EXPECT_EQ(tenhou.place, (std::array<int, 4>{2, 0, 3, 1}));
  EXPECT_DOUBLE_EQ(tenhou.points[1], 45);
  EXPECT_DOUBLE_EQ(tenhou.points[3], 15);
  Rules european = Rules::european();
  const GameResult shared = game_result({30000, 45000, 0, 45000}, european);
  EXPECT_DOUBLE_EQ(shared.points[1], 25);
  EXPECT_DOUBLE_EQ(shared.points[3], 25);
}

TEST(Scenario, TenhouRoundsFiveDownAndSixUpTowardsTheReturnScore) {
  const GameResult result = game_result({66000, 32200, 26000, -24200}, Rules::tenhou());
  EXPECT_EQ(result.points, (std::array<double, 4>{76, 12, -14, -74}));
}

}  // namespace
}  // namespace ingot::mahjong
