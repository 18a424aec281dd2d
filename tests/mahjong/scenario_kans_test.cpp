// Kans: when the new dora shows, replacement draws, limits, and kans after riichi.
#include "tests/mahjong/scene.h"

namespace ingot::mahjong {
namespace {

// Player 0 throws 9m, of which player 2 holds three; it also holds four 1s, and draws 9p twice.
Deal kans() {
  Deal s;
  s.hands[2] = "999m1111s147p28p4z";
  s.draws = "9m";
  s.rinshan = "2z5z6z7z";
  s.dora = "3z6p6p6p6p";
  return s;
}

int indicators(const Scene& scene) { return scene.table.pub.indicator_count; }

TEST(Scenario, AClosedKanShowsItsDoraBeforeTheReplacementIsDrawn) {
  Deal s = kans();
  s.draws = "4z5z6z";
  Scene scene(s);
  scene.discard("4z");
  scene.discard("5z");
  scene.ankan("1s");
  EXPECT_EQ(indicators(scene), 2);
  ASSERT_GE(scene.events.size(), 3U);
  EXPECT_EQ(scene.events[scene.events.size() - 3].type, EventType::Ankan);
  EXPECT_EQ(scene.events[scene.events.size() - 2].type, EventType::Dora);
  EXPECT_EQ(scene.events[scene.events.size() - 1].type, EventType::Tsumo);
}

TEST(Scenario, AnOpenKanShowsItsDoraWithTheNextDiscard) {
  Scene scene(kans());
  scene.discard("9m", {{2, daiminkan("9m")}});
  EXPECT_EQ(indicators(scene), 1);
  scene.discard("2z");
  EXPECT_EQ(indicators(scene), 2);
  EXPECT_EQ(scene.count(EventType::Dora), 1);
}

TEST(Scenario, AClosedKanAfterAnOpenOneShowsBothDora) {
  Scene scene(kans());
  scene.discard("9m", {{2, daiminkan("9m")}});
  scene.ankan("1s");
  EXPECT_EQ(indicators(scene), 3);
  scene.discard("5z");
  EXPECT_EQ(indicators(scene), 3);
}

TEST(Scenario, AnAddedKanAfterAnOpenOneShowsTheFirstDoraAtOnceAndItsOwnLater) {
  Deal s;
  s.hands[2] = "999m66s147p28p124z";
  s.draws = "6s4z4z1z9m";
  s.rinshan = "6s7z";
  s.dora = "3z6p6p";
  Scene scene(s);
  scene.discard("6s", {{2, pon("6s")}});
  scene.discard("1z");
  scene.discard("4z");
  scene.discard("4z");
  scene.discard("1z");  // player 1
  scene.discard("9m");  // player 2 draws and throws it; nobody can call
  EXPECT_EQ(indicators(scene), 1);
  // Again, with the 9m thrown by player 0.
  s.draws = "6s4z9m";
  Scene both(s);
  both.discard("6s", {{2, pon("6s")}});
  both.discard("1z");
  both.discard("4z");
  both.discard("9m", {{2, daiminkan("9m")}});
  both.kakan("6s");
  EXPECT_EQ(indicators(both), 2);
  both.discard("7z");
  EXPECT_EQ(indicators(both), 3);
}

TEST(Scenario, KanDoraIsAtOnceInEuropeAndMayBeTurnedOff) {
  Scene european(kans(), Rules::european());
  european.discard("9m", {{2, daiminkan("9m")}});
  EXPECT_EQ(indicators(european), 2);
  Rules rules;
  rules.kan_dora = KanDora::None;
  Scene none(kans(), rules);
  none.discard("9m", {{2, daiminkan("9m")}});
  none.ankan("1s");
  none.discard("5z");
  EXPECT_EQ(indicators(none), 1);
}

// Player 2 waits for 5s beside 999m; the new dora would be 9m.
Deal rinshan_win(const char* replacement) {
  Deal s;
  s.hands[2] = "999m234p678p22s46s";
  s.draws = "9m";
  s.rinshan = replacement;
  s.dora = "3z8m";
  return s;
}

TEST(Scenario, AWinOnTheReplacementOfAnOpenKanDoesNotCountTheNewDora) {
  Scene scene(rinshan_win("5s"));
  scene.discard("9m", {{2, daiminkan("9m")}});
  scene.act(tsumo());
  const WinScore& win = scene.last(EventType::Hora).win;
  EXPECT_TRUE(win.has(Yaku::Rinshan));
  EXPECT_EQ(win.dora, 0);
}

TEST(Scenario, AWinOnTheReplacementOfAClosedKanCountsTheNewDora) {
  Deal s = rinshan_win("5s");
  s.hands[2] = "999m234p678p22s46s";
  s.draws = "4z5z9m";
  Scene scene(s);
  scene.discard("4z");
  scene.discard("5z");
  scene.ankan("9m");
  scene.act(tsumo());
  const WinScore& win = scene.last(EventType::Hora).win;
  EXPECT_TRUE(win.has(Yaku::Rinshan));
  EXPECT_TRUE(win.has(Yaku::MenzenTsumo));
  EXPECT_FALSE(win.has(Yaku::Chiihou)) << "the kan interrupted the first turn";
  EXPECT_EQ(win.dora, 4);
}

TEST(Scenario, ARonOnTheDiscardAfterAnOpenKanCountsTheNewDora) {
  Deal s = rinshan_win("6s");
  s.hands[3] = "123m123p123s55z78s";
  s.dora = "3z9p";  // 1p
  Scene scene(s);
  scene.discard("9m", {{2, daiminkan("9m")}});
  scene.discard("6s", {{3, ron()}});
  EXPECT_EQ(scene.last(EventType::Hora).win.dora, 1);
}

TEST(Scenario, ARiichiWinnerSeesOneUraPerShownDora) {
  for (const bool kan_ura : {true, false}) {
    Rules rules;
    rules.kan_ura_dora = kan_ura;
    Deal s;
    s.hands[0] = "111m234567p99s67s";
    s.draws = "4z5z6z6z1m5z6z6z8s";
    s.rinshan = "2z";
    s.dora = "3z9m";
    s.ura = "3z8s";
    Scene scene(s, rules);
    scene.riichi("4z");
    for (const char* one : {"5z", "6z", "6z"}) scene.discard(one);
    scene.ankan("1m");
    scene.discard("2z");
    for (const char* one : {"5z", "6z", "6z"}) scene.discard(one);
    scene.act(tsumo());
    const Event& win = scene.last(EventType::Hora);
    EXPECT_EQ(win.ura_count, kan_ura ? 2 : 1);
    EXPECT_EQ(win.win.dora, 4);
    EXPECT_EQ(win.win.ura, kan_ura ? 2 : 0);  // 8s shows 9s, the pair
  }
}

TEST(Scenario, AfterRiichiAKanMayNotChangeTheWaits) {
  const struct {
    const char *hand, *drawn;
    bool may;
  } cases[] = {{"111m234567p99s67s", "1m", true},
               {"1112m345678p999s", "1m", false},  // 1112m also waits for 3m
               {"1112m345678p999s", "9s", true},
               {"111m23456799p44s", "5p", false}};  // not four of a kind at all
  for (const auto& one : cases) {
    Deal s;
    const std::string draws = std::string("4z5z6z6z") + one.drawn;
    s.hands[0] = one.hand;
    s.draws = draws.c_str();
    Scene scene(s);
    scene.riichi("4z");
    for (const char* tile : {"5z", "6z", "6z"}) scene.discard(tile);
    EXPECT_EQ(scene.may(0, ActionType::Ankan), one.may) << one.hand << ' ' << one.drawn;
  }
}

TEST(Scenario, AfterRiichiOnlyTheDrawnTileMayBecomeAKan) {
  Deal s;
  s.hands[0] = "1111m234p567p9s78s";
  s.draws = "9s5z6z6z4z";
  Scene scene(s);
  scene.riichi("1m");
  for (const char* tile : {"5z", "6z", "6z"}) scene.discard(tile);
  EXPECT_FALSE(scene.may(0, ActionType::Ankan));
  EXPECT_EQ(legal_actions(scene.table, 0).size(), 1U) << "only the drawn tile can be thrown";
}

TEST(Scenario, TheRiichiAnkanRuleCanForbidItOrAskForTheSameReadings) {
  Deal s;
  s.hands[0] = "222m345p789p99s34m";  // 2m is a triplet, or a pair and the run 234m: waits 2m 5m
  s.draws = "4z5z6z6z2m";
  s.dora = "9p";
  const auto may = [&](RiichiAnkan rule) {
    Rules rules;
    rules.riichi_ankan = rule;
    Scene scene(s, rules);
    scene.riichi("4z");
    for (const char* tile : {"5z", "6z", "6z"}) scene.discard(tile);
    return scene.may(0, ActionType::Ankan);
  };
  EXPECT_FALSE(may(RiichiAnkan::SameWaits)) << "2m itself was a wait";
  EXPECT_FALSE(may(RiichiAnkan::Forbidden));
  s.hands[0] = "111m234567p99s67s";
  s.draws = "4z5z6z6z1m";
  EXPECT_TRUE(may(RiichiAnkan::SameReadings));
  EXPECT_FALSE(may(RiichiAnkan::Forbidden));
}

TEST(Scenario, WithoutALiveTileThereIsNoKanAndNoCall) {
  Deal s;
  s.hands[0] = "999m1111s147p28p4z";
  Scene scene(s);
  scene.pass_turns(69);
  ASSERT_EQ(scene.table.pub.live_left, 0);
  const ActionList legal = legal_actions(scene.table, scene.table.pub.actor);
  EXPECT_EQ(legal.find(ActionType::Ankan), nullptr);
  EXPECT_EQ(legal.find(ActionType::Riichi), nullptr);
  scene.pass_turns(1);
  EXPECT_EQ(scene.table.pub.phase, Phase::RoundOver) << "nobody is asked to call the last discard";
}

}  // namespace
}  // namespace ingot::mahjong
