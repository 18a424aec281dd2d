// Drawn rounds: each reason, its payments, and who deals next.
#include "tests/mahjong/scene.h"

namespace ingot::mahjong {
namespace {

using Scores = std::array<std::int32_t, 4>;
constexpr Scores kEqual = {25000, 25000, 25000, 25000};

void expect_next(const Scene& scene, int round, int honba, int sticks) {
  ASSERT_EQ(scene.table.pub.phase, Phase::RoundOver);
  const RoundStart next = next_start(scene.table);
  EXPECT_EQ(next.round, round);
  EXPECT_EQ(next.honba, honba);
  EXPECT_EQ(next.sticks, sticks);
}

TEST(Scenario, FourEqualWindsInTheFirstTurnAbort) {
  Deal s;
  s.draws = "1111z";
  s.honba = 1;
  s.sticks = 1;
  Scene scene(s);
  for (int i = 0; i < 4; ++i) scene.discard("1z");
  EXPECT_EQ(scene.drawn_for(), DrawReason::FourWinds);
  EXPECT_EQ(scene.scores(), kEqual);
  expect_next(scene, 0, 2, 1);
  Rules rules;
  rules.abort_four_winds = false;
  Scene goes_on(s, rules);
  for (int i = 0; i < 4; ++i) goes_on.discard("1z");
  EXPECT_FALSE(goes_on.over());
}

TEST(Scenario, FourWindsAfterAKanAreNone) {
  Deal s;
  s.hands[1] = "999m147p258s2z4z5z6z";
  s.draws = "1z9m11z";
  s.rinshan = "1z";
  Scene scene(s);
  scene.discard("1z");
  scene.ankan("9m");
  for (int i = 0; i < 3; ++i) scene.discard("1z");
  EXPECT_FALSE(scene.over());
}

Deal four_ready() {
  Deal s;
  s.hands = {"123456789m1122z", "123456789p3344z", "123456789s5566z", "123789m12378p99s"};
  s.draws = "7777z";
  s.dora = "2s";
  return s;
}

TEST(Scenario, TheFourthRiichiAbortsWithItsStickOnTheTable) {
  Scene scene(four_ready());
  for (int i = 0; i < 4; ++i) scene.riichi("7z");
  EXPECT_EQ(scene.drawn_for(), DrawReason::FourRiichi);
  EXPECT_EQ(scene.count(EventType::ReachAccepted), 4);
  EXPECT_EQ(scene.scores(), (Scores{24000, 24000, 24000, 24000}));
  expect_next(scene, 0, 1, 4);
  Rules rules;
  rules.abort_four_riichi = false;
  Scene goes_on(four_ready(), rules);
  for (int i = 0; i < 4; ++i) goes_on.riichi("7z");
  EXPECT_FALSE(goes_on.over());
}

TEST(Scenario, ARonOnTheFourthRiichiDiscardWinsInsteadOfAborting) {
  Deal s = four_ready();
  s.draws = "7771z";
  Scene scene(s);
  for (int i = 0; i < 3; ++i) scene.riichi("7z");
  scene.riichi("1z", {{0, ron()}});
  EXPECT_EQ(scene.count(EventType::Ryukyoku), 0);
  EXPECT_EQ(scene.count(EventType::ReachAccepted), 3);
  const std::int32_t won = scene.last(EventType::Hora).points;
  EXPECT_EQ(scene.scores(), (Scores{24000 + won + 3000, 24000, 24000, 25000 - won}));
}

Deal four_kans() {
  Deal s;
  s.hands = {"11112222m13579s", "33334444p13579s", "678m678p555z99p78s", ""};
  s.draws = "4z4z";
  s.rinshan = "4z7z7z9s";
  s.dora = "2p2z2z2z6z";
  return s;
}

TEST(Scenario, FourKansOfTwoPlayersAbortAfterTheNextDiscard) {
  Scene scene(four_kans());
  scene.ankan("1m");
  scene.ankan("2m");
  scene.discard("7z");
  scene.ankan("3p");
  scene.ankan("4p");
  EXPECT_FALSE(scene.over());
  scene.discard("4z");
  EXPECT_EQ(scene.drawn_for(), DrawReason::FourKans);
  EXPECT_EQ(scene.scores(), kEqual);
  expect_next(scene, 0, 1, 0);
  Rules rules;
  rules.abort_four_kans = false;
  Scene goes_on(four_kans(), rules);
  goes_on.ankan("1m");
  goes_on.ankan("2m");
  goes_on.discard("7z");
  goes_on.ankan("3p");
  goes_on.ankan("4p");
  goes_on.discard("4z");
  EXPECT_FALSE(goes_on.over());
}

TEST(Scenario, ARonOnTheDiscardAfterTheFourthKanWinsInsteadOfAborting) {
  Scene scene(four_kans());
  scene.ankan("1m");
  scene.ankan("2m");
  scene.discard("7z");
  scene.ankan("3p");
  scene.ankan("4p");
  scene.discard("9s", {{2, ron()}});
  EXPECT_EQ(scene.count(EventType::Hora), 1);
  EXPECT_EQ(scene.count(EventType::Ryukyoku), 0);
}

TEST(Scenario, FourKansOfOnePlayerGoOnAndNobodyMayDeclareAFifth) {
  Deal s;
  s.hands = {"111122223333m4m", "6666p135p135s246s", "", ""};
  s.draws = "4m4z";
  s.rinshan = "4m4m9p1s";
  Scene scene(s);
  for (const char* kind : {"1m", "2m", "3m", "4m"}) scene.ankan(kind);
  scene.discard("9p");
  EXPECT_FALSE(scene.over());
  EXPECT_EQ(scene.table.pub.actor, 1);
  EXPECT_FALSE(scene.may(1, ActionType::Ankan));
}

TEST(Scenario, NineOrphansAreForTheFirstUninterruptedDrawAlone) {
  Deal s;
  s.hands = {"19m19p19s123z2468m", "19m19p19s124z2468p", "", "77z258m258p258s1z6z"};
  s.draws = "2s7z";
  s.dora = "5z";
  s.honba = 2;
  Scene scene(s);
  EXPECT_TRUE(scene.may(0, ActionType::NineOrphans));
  scene.act(Action::of(ActionType::NineOrphans));
  EXPECT_EQ(scene.drawn_for(), DrawReason::NineOrphans);
  EXPECT_EQ(scene.scores(), kEqual);
  expect_next(scene, 0, 3, 0);
  Scene next(s);
  next.discard("2s");
  EXPECT_TRUE(next.may(1, ActionType::NineOrphans));
  s.draws = "7z3z3z";  // player 3 calls first
  Scene called(s);
  called.discard("7z", {{3, pon("7z")}});
  called.discard("6z");
  called.discard("3z");
  EXPECT_EQ(called.table.pub.actor, 1);
  EXPECT_FALSE(called.may(1, ActionType::NineOrphans));
  Rules rules;
  rules.abort_nine_orphans = false;
  EXPECT_FALSE(Scene(s, rules).may(0, ActionType::NineOrphans));
}

// What tenpai players get, by who is tenpai; the dealer is player 0.
TEST(Scenario, TenpaiPlayersShareThreeThousandPoints) {
  const std::array<const char*, 4> ready = {"123456789m1122z", "123456789p3344z", "123456789s5566z",
                                            "123789m12378p99s"};
  const struct {
    unsigned tenpai;
    Scores change;
  } cases[] = {{0, {}},
               {1, {3000, -1000, -1000, -1000}},
               {2, {-1000, 3000, -1000, -1000}},
               {3, {1500, 1500, -1500, -1500}},
               {14, {-3000, 1000, 1000, 1000}},
               {15, {}}};
  for (const auto& one : cases) {
    Deal s;
    for (std::size_t p = 0; p < 4; ++p)
      if ((one.tenpai >> p & 1) != 0) s.hands[p] = ready[p];
    s.dora = "2s";
    s.honba = 1;
    s.sticks = 1;
    Scene scene(s);
    scene.pass_turns();
    EXPECT_EQ(scene.drawn_for(), DrawReason::Exhausted);
    EXPECT_EQ(scene.last(EventType::Ryukyoku).deltas, one.change) << one.tenpai;
    expect_next(scene, (one.tenpai & 1) != 0 ? 0 : 1, 2, 1);
  }
}

TEST(Scenario, AWaitOnFourTilesOfTheOwnHandIsNoTenpai) {
  Deal s;
  s.hands[1] = "1111m234567p678s";
  Scene scene(s);
  scene.pass_turns();
  EXPECT_EQ(scene.last(EventType::Ryukyoku).deltas, Scores{});
}

// Players whose bit is set in `lucky` draw terminals and honours all round; the others simple tiles first.
std::string nagashi_draws(unsigned lucky) {
  const auto good = parse_tiles("444455556666777722z");
  const auto plain = parse_tiles("22334450667788m22334450667788p2233445066777788s1199m1199p");
  std::string text;
  std::size_t g = 0, n = 0;
  for (unsigned i = 0; i < 70; ++i)
    text += format_tiles({(lucky >> i % 4 & 1) != 0 ? good.at(g++) : plain.at(n++)});
  return text;
}
Deal nagashi(const std::string& draws) {
  Deal s;
  s.hands = {"13579m13579p135s", "2468m2468p2468s1z", "13579m13579p1s22z", "2468m2468p2468s1z"};
  s.draws = draws.c_str();
  return s;
}

TEST(Scenario, NagashiManganIsPaidLikeAManganByTsumoWithoutHonbaOrSticks) {
  const std::string draws = nagashi_draws(2);
  Deal s = nagashi(draws);
  s.honba = 1;
  s.sticks = 1;
  Scene scene(s);
  scene.pass_turns();
  EXPECT_EQ(scene.drawn_for(), DrawReason::NagashiMangan);
  EXPECT_EQ(scene.scores(), (Scores{21000, 33000, 23000, 23000}));
  expect_next(scene, 1, 2, 1);  // it is not a win: the dealer, not tenpai, moves on
}

TEST(Scenario, ADealersNagashiManganPaysFourThousandEach) {
  const std::string draws = nagashi_draws(1);
  Scene scene(nagashi(draws));
  scene.pass_turns();
  EXPECT_EQ(scene.scores(), (Scores{37000, 21000, 21000, 21000}));
}

TEST(Scenario, ACalledDiscardSpoilsNagashiMangan) {
  const std::string draws = nagashi_draws(2);
  Scene scene(nagashi(draws));
  while (scene.table.pub.phase == Phase::Turn) {
    const int player = scene.table.pub.actor;
    const Action drawn = Action::discard(scene.own(player).drawn, true);
    if (player == 1 && drawn.tile == tile("2z") && !scene.seat(1).river_called) {
      scene.act(drawn, {{2, pon("2z")}});
      scene.discard("3m");
      continue;
    }
    scene.act(drawn);
  }
  EXPECT_EQ(scene.drawn_for(), DrawReason::Exhausted);
}

TEST(Scenario, NagashiManganIsAnOption) {
  const std::string draws = nagashi_draws(2);
  Rules rules;
  rules.nagashi_mangan = false;
  Scene scene(nagashi(draws), rules);
  scene.pass_turns();
  EXPECT_EQ(scene.drawn_for(), DrawReason::Exhausted);
  EXPECT_EQ(scene.scores(), kEqual);
}

}  // namespace
}  // namespace ingot::mahjong
