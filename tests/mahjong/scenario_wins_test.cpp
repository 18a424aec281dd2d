// Wins that few real games have: several at once, robbed kans, liability. The expected payments are those of
// the rules' text: see docs/mahjong.md.
#include "tests/mahjong/scene.h"

namespace ingot::mahjong {
namespace {

using Scores = std::array<std::int32_t, 4>;

// Players 1 to 3 wait for 6s and 9s; player 0 draws 6s. Pinfu and ittsu: 3900 each; player 3 pinfu, tanyao:
// 2000.
Deal three_ready() {
  Deal s;
  s.hands = {"", "123456789m11p78s", "123456789p22m78s", "234678m345p66p78s"};
  s.draws = "6s";
  return s;
}

TEST(Scenario, TwoRonsAreBothPaidAndTheFirstInTurnTakesHonbaAndSticks) {
  Deal s = three_ready();
  s.honba = 2;
  s.sticks = 1;
  Scene scene(s);
  scene.discard("6s", {{2, ron()}, {3, ron()}});
  EXPECT_EQ(scene.scores(), (Scores{25000 - 4500 - 2000, 25000, 25000 + 4500 + 1000, 27000}));
  EXPECT_EQ(scene.count(EventType::Hora), 2);
  EXPECT_EQ(next_start(scene.table).round, 1);
  EXPECT_EQ(next_start(scene.table).honba, 0);
  EXPECT_EQ(next_start(scene.table).sticks, 0);
}

TEST(Scenario, TheTurnOrderOfRonsCountsFromTheDiscarder) {
  Deal s = three_ready();
  s.round = 1;  // player 1 deals
  s.draws = "44z6s";
  s.honba = 1;
  Scene scene(s);
  scene.discard("4z");
  scene.discard("4z");
  scene.discard("6s", {{1, ron()}, {2, ron()}});
  EXPECT_EQ(scene.scores(), (Scores{25000, 25000 + 5800 + 300, 25000 + 3900, 25000 - 6100 - 3900}));
  EXPECT_EQ(next_start(scene.table).round, 1) << "the dealer won and stays";
  EXPECT_EQ(next_start(scene.table).honba, 2);
}

TEST(Scenario, WithHeadBumpOnlyTheFirstInTurnWins) {
  Rules rules;
  rules.multiple_ron = MultipleRon::HeadBump;
  Scene scene(three_ready(), rules);
  scene.discard("6s", {{1, ron()}, {2, ron()}, {3, ron()}});
  EXPECT_EQ(scene.scores(), (Scores{21100, 28900, 25000, 25000}));
}

TEST(Scenario, ThreeRonsAbortTheRoundUnderTenhouRules) {
  Deal s = three_ready();
  s.honba = 1;
  s.sticks = 2;
  Scene scene(s);
  scene.discard("6s", {{1, ron()}, {2, ron()}, {3, ron()}});
  EXPECT_EQ(scene.drawn_for(), DrawReason::TripleRon);
  EXPECT_EQ(scene.scores(), (Scores{25000, 25000, 25000, 25000}));
  const RoundStart next = next_start(scene.table);
  EXPECT_EQ(next.round, 0);
  EXPECT_EQ(next.honba, 2);
  EXPECT_EQ(next.sticks, 2);
}

TEST(Scenario, ThreeRonsAllWinWhereTheRulesSaySo) {
  Deal s = three_ready();
  s.sticks = 1;
  Scene scene(s, Rules::majsoul());
  scene.discard("6s", {{1, ron()}, {2, ron()}, {3, ron()}});
  EXPECT_EQ(scene.scores(), (Scores{25000 - 3900 - 3900 - 2000, 29900, 28900, 27000}));
}

TEST(Scenario, ARiichiStickIsNotPaidWhenTheDeclaringDiscardIsWonOn) {
  Deal s = three_ready();
  s.hands[0] = "345789m123p99s46s";  // waits for 5s; draws 6s: riichi by throwing it
  Scene scene(s);
  scene.riichi("6s", {{1, ron()}});
  EXPECT_EQ(scene.count(EventType::ReachAccepted), 0);
  EXPECT_EQ(scene.scores(), (Scores{21100, 28900, 25000, 25000}));
}

TEST(Scenario, KiriageMakesFourHanThirtyFuAMangan) {
  Deal s = three_ready();
  s.dora = "1m";  // 2m: one dora, four han
  for (const bool kiriage : {false, true}) {
    Rules rules;
    rules.kiriage_mangan = kiriage;
    Scene scene(s, rules);
    scene.discard("6s", {{1, ron()}});
    EXPECT_EQ(scene.seat(1).score, 25000 + (kiriage ? 8000 : 7700));
  }
}

// Player 2 has called 6s and draws the fourth; player 3 waits for it.
Scene before_chankan(const Rules& rules = {}) {
  Deal s;
  s.hands = {"", "", "66s147p28p1122z77z", "123456789m11p78s"};
  s.draws = "6s4z4z4z6s";
  Scene scene(s, rules);
  scene.discard("6s", {{2, pon("6s")}});
  scene.discard("7z");
  for (int i = 0; i < 3; ++i) scene.discard("4z");
  return scene;
}

TEST(Scenario, AnAddedKanCanBeRobbedAndShowsNoDora) {
  Scene scene = before_chankan();
  scene.kakan("6s", {{3, ron()}});
  const Event& win = scene.last(EventType::Hora);
  EXPECT_TRUE(win.win.has(Yaku::Chankan));
  EXPECT_EQ(win.target, 2);
  EXPECT_EQ(scene.count(EventType::Dora), 0);
  EXPECT_EQ(scene.scores(), (Scores{25000, 25000, 25000 - 7700, 25000 + 7700}));  // chankan, pinfu, ittsu
}

TEST(Scenario, AKanThatNobodyRobsStandsAndWhoPassedIsFuriten) {
  Scene scene = before_chankan();
  scene.kakan("6s");
  EXPECT_TRUE(scene.table.pub.rinshan);
  EXPECT_TRUE(is_furiten(scene.table.pub, scene.own(3), 3));
  scene.pass_turns(2);
  EXPECT_FALSE(is_furiten(scene.table.pub, scene.own(3), 3)) << "until its own next discard";
}

TEST(Scenario, AClosedKanCanBeRobbedByThirteenOrphansAloneWhereAllowed) {
  Deal s;
  s.hands = {"777z123m456p147s2p", "119m19p19s123456z", "", ""};
  s.draws = "7z";
  Scene tenhou(s);
  tenhou.ankan("7z");
  EXPECT_TRUE(tenhou.table.pub.rinshan) << "nobody was asked";
  Scene majsoul(s, Rules::majsoul());
  majsoul.ankan("7z", {{1, ron()}});
  EXPECT_EQ(majsoul.scores(), (Scores{25000 - 32000, 25000 + 32000, 25000, 25000}));
  s.hands[0] = "666s123p456p147m2p";  // another hand that waits for the tile may not
  s.hands[1] = "123456789m11p78s";
  s.draws = "6s";
  Scene other(s, Rules::majsoul());
  other.ankan("6s");
  EXPECT_TRUE(other.table.pub.rinshan);
}

// Player 1 calls haku from 0, hatsu and chun from 2; then it waits for 3m, the rest being `rest`.
Scene daisangen(const char* rest, const char* then, int honba, const Rules& rules = {}) {
  Deal s;
  const std::string hand = std::string("556677z1s5s8s") + rest, draws = std::string("567z") + then;
  s.hands[1] = hand.c_str();
  s.draws = draws.c_str();
  s.honba = honba;
  s.scores = {100000, 100000, 100000, 100000};
  Scene scene(s, rules);
  scene.discard("5z", {{1, pon("5z")}});
  scene.discard("1s");
  scene.discard("6z", {{1, pon("6z")}});
  scene.discard("5s");
  scene.discard("7z", {{1, pon("7z")}});
  scene.discard("8s");
  return scene;
}

TEST(Scenario, WhoFedTheThirdDragonPaysADaisangenByTsumoAlone) {
  Scene scene = daisangen("12m99p", "9m9m9m3m", 1);
  scene.pass_turns(3);
  scene.act(tsumo());
  EXPECT_EQ(scene.scores(), (Scores{100000, 132300, 67700, 100000}));
}

TEST(Scenario, WhoFedTheThirdDragonSharesADaisangenByRonAndPaysTheHonba) {
  Scene scene = daisangen("12m99p", "9m3m", 1);
  scene.discard("9m");
  scene.discard("3m", {{1, ron()}});
  EXPECT_EQ(scene.scores(), (Scores{100000, 132300, 100000 - 16300, 100000 - 16000}));
}

TEST(Scenario, TheEuropeanDiscarderPaysTheHonbaOfASharedRon) {
  Scene scene = daisangen("12m99p", "9m3m", 1, Rules::european());
  scene.discard("9m");
  scene.discard("3m", {{1, ron()}});
  EXPECT_EQ(scene.scores(), (Scores{100000, 132300, 100000 - 16000, 100000 - 16300}));
}

TEST(Scenario, WhoFedTheThirdDragonPaysAllIfItDealsInToo) {
  Scene scene = daisangen("12m99p", "3m", 1);
  scene.discard("3m", {{1, ron()}});
  EXPECT_EQ(scene.scores(), (Scores{100000, 132300, 67700, 100000}));
}

TEST(Scenario, LiabilityCoversTheWholeHandUnderTenhouRulesAndItsYakumanElsewhere) {
  Scene tenhou = daisangen("1122z", "9m9m9m1z", 0);
  tenhou.pass_turns(3);
  tenhou.act(tsumo());
  EXPECT_EQ(tenhou.scores(), (Scores{100000, 164000, 36000, 100000}));
  Scene majsoul = daisangen("1122z", "9m9m9m1z", 0, Rules::majsoul());
  majsoul.pass_turns(3);
  majsoul.act(tsumo());  // daisangen by player 2 alone, tsuuiisou by all
  EXPECT_EQ(majsoul.scores(), (Scores{84000, 164000, 100000 - 32000 - 8000, 92000}));
  Rules none;
  none.pao = Pao::None;
  Scene nobody = daisangen("1122z", "9m9m9m1z", 0, none);
  nobody.pass_turns(3);
  nobody.act(tsumo());
  EXPECT_EQ(nobody.scores(), (Scores{68000, 164000, 84000, 84000}));
}

TEST(Scenario, AConcealedThirdDragonMakesNobodyLiable) {
  Deal s;
  s.hands[1] = "5566777z12m99p1s5s";
  s.draws = "56z9m9m9m3m";
  s.scores = {100000, 100000, 100000, 100000};
  Scene scene(s);
  scene.discard("5z", {{1, pon("5z")}});
  scene.discard("1s");
  scene.discard("6z", {{1, pon("6z")}});
  scene.discard("5s");
  scene.pass_turns(3);
  scene.act(tsumo());
  EXPECT_EQ(scene.scores(), (Scores{84000, 132000, 92000, 92000}));
}

TEST(Scenario, WhoFedTheFourthWindByAnOpenKanPaysADaisuushii) {
  Deal s;
  s.hands[1] = "112233444z7p1s9s9m";
  s.draws = "1234z";
  s.rinshan = "7p";
  s.dora = "1m";
  s.scores = {100000, 100000, 100000, 100000};
  for (const bool twice : {false, true}) {
    Scene scene(s, twice ? Rules::majsoul() : Rules::tenhou());
    scene.discard("1z", {{1, pon("1z")}});
    scene.discard("1s");
    scene.discard("2z", {{1, pon("2z")}});
    scene.discard("9s");
    scene.discard("3z", {{1, pon("3z")}});
    scene.discard("9m");
    scene.discard("4z", {{1, daiminkan("4z")}});
    scene.act(tsumo());
    const int points = twice ? 64000 : 32000;
    EXPECT_EQ(scene.scores(), (Scores{100000, 100000 + points, 100000 - points, 100000}));
  }
}

TEST(Scenario, TheFirstDrawsWinAsTenhouAndChiihouUnlessSomebodyCalled) {
  Deal s;
  s.hands = {"123456789m11p78s", "123456789p22m78s", "77z147m258p369s1z", ""};
  s.draws = "6s";
  Scene dealer(s);
  dealer.act(tsumo());
  EXPECT_TRUE(dealer.last(EventType::Hora).win.has(Yaku::Tenhou));
  s.draws = "7z9s";
  Scene second(s);
  second.discard("7z");
  second.act(tsumo());
  EXPECT_TRUE(second.last(EventType::Hora).win.has(Yaku::Chiihou));
  s.draws = "7z4z4z9s";  // player 2 calls; player 1's first draw is later
  Scene called(s);
  called.discard("7z", {{2, pon("7z")}});
  called.discard("1z");
  called.discard("4z");
  called.discard("4z");
  called.act(tsumo());
  EXPECT_FALSE(called.last(EventType::Hora).win.has(Yaku::Chiihou));
}

TEST(Scenario, RenhouIsAManganInEuropeAndNothingAtTenhou) {
  Deal s = three_ready();
  Scene european(s, Rules::european());
  european.discard("6s", {{1, ron()}});
  EXPECT_TRUE(european.last(EventType::Hora).win.has(Yaku::Renhou));
  EXPECT_EQ(european.seat(1).score, 25000 + 8000);
  Scene tenhou(s);
  tenhou.discard("6s", {{1, ron()}});
  EXPECT_EQ(tenhou.seat(1).score, 25000 + 3900);
}

TEST(Scenario, IppatsuEndsWithACallAndWithTheOwnNextDiscard) {
  Deal s;
  s.hands = {"123456789m11p78s", "77z147m258p369s1z", "", ""};
  s.draws = "5z4z6s";
  Scene at_once(s);
  at_once.riichi("5z");
  at_once.discard("4z");
  at_once.discard("6s", {{0, ron()}});
  EXPECT_TRUE(at_once.last(EventType::Hora).win.has(Yaku::Ippatsu));
  EXPECT_TRUE(at_once.last(EventType::Hora).win.has(Yaku::DoubleRiichi));
  s.draws = "5z4z7z6s";
  Scene called(s);
  called.riichi("5z");
  called.discard("4z");
  called.discard("7z", {{1, pon("7z")}});
  called.discard("1z");
  called.discard("6s", {{0, ron()}});
  EXPECT_FALSE(called.last(EventType::Hora).win.has(Yaku::Ippatsu));
  s.draws = "5z4z4z4z6z6s";
  Scene late(s);
  late.riichi("5z");
  for (const char* one : {"4z", "4z", "4z", "6z"}) late.discard(one);
  late.discard("6s", {{0, ron()}});
  EXPECT_FALSE(late.last(EventType::Hora).win.has(Yaku::Ippatsu));
}

TEST(Scenario, IppatsuAndUraDoraAreOptions) {
  Deal s;
  s.hands[0] = "123456789m11p78s";
  s.draws = "4z6s";
  s.ura = "6s";
  const auto win = [&](const Rules& rules) {
    Scene scene(s, rules);
    scene.riichi("4z");
    scene.discard("6s", {{0, ron()}});
    return scene.last(EventType::Hora).win;
  };
  Rules rules;
  EXPECT_TRUE(win(rules).has(Yaku::Ippatsu));
  EXPECT_EQ(win(rules).ura, 1);
  rules.ippatsu = false;
  EXPECT_FALSE(win(rules).has(Yaku::Ippatsu));
  EXPECT_EQ(win(rules).ura, 1);
  rules.ura_dora = false;
  EXPECT_EQ(win(rules).ura, 0);
}

}  // namespace
}  // namespace ingot::mahjong
