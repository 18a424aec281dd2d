#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ingot/mahjong/log.h"

namespace ingot::mahjong {
namespace {

constexpr const char* kHashed = "mt19937ar-sha512-n288,DEADBEEF,1,7FFFFFFF";
constexpr const char* kPlain = "mt19937ar,DEADBEEF,1,7FFFFFFF";
std::string modern_seed() { return "mt19937ar-sha512-n288-base64," + std::string(3328, 'A'); }

// A round in Tenhou's XML in which everybody discards what was drawn, all being dealt from the seed's wall.
struct WrittenRound {
  std::string shuffle, in_init, dice, hands, play;
  std::string text(const std::string& type = "9") const {
    return fmt::format(R"(<mjloggm ver="2.3">{}<GO type="{}"/><TAIKYOKU oya="0"/>)"
                       R"(<INIT seed="0,0,0,{}" ten="250,250,250,250" oya="0" {}{}/>{}</mjloggm>)",
                       shuffle, type, dice, hands, in_init, play);
  }
};

WrittenRound write_round(const std::string& seed) {
  const TenhouWalls::Deal deal = TenhouWalls(seed).next();
  Events events;
  Table table = start_round({}, {.scores = {25000, 25000, 25000, 25000}}, deal.wall, &events);
  while (table.to_act() != 0) {
    const int player = __builtin_ctz(table.to_act());
    const bool turn = table.pub.phase == Phase::Turn;
    apply(table, player,
          turn ? Action::discard(table.own[static_cast<std::size_t>(player)].drawn, true) : Action::pass(),
          &events);
  }
  WrittenRound round;
  round.dice = fmt::format("{},{},{}", deal.dice[0] - 1, deal.dice[1] - 1, deal.wall[5]);
  std::array<std::string, 4> hands;
  std::size_t place = kTileIds;
  for (int block = 0; block < 4; ++block)
    for (std::string& hand : hands)
      for (int n = 0; n < (block < 3 ? 4 : 1); ++n)
        hand += fmt::format("{}{}", hand.empty() ? "" : ",", deal.wall[--place]);
  for (std::size_t p = 0; p < 4; ++p) round.hands += fmt::format(R"(hai{}="{}" )", p, hands[p]);
  int drawn = 0;
  for (const Event& event : events) {
    if (event.type == EventType::Tsumo) drawn = event.id;
    if (event.type == EventType::Tsumo) round.play += fmt::format("<{}{}/>", "TUVW"[event.actor], drawn);
    if (event.type == EventType::Dahai) round.play += fmt::format("<{}{}/>", "DEFG"[event.actor], drawn);
    if (event.type != EventType::Ryukyoku) continue;
    std::vector<std::int32_t> sc;
    for (std::size_t p = 0; p < 4; ++p) {
      sc.push_back((event.scores[p] - event.deltas[p]) / 100);
      sc.push_back(event.deltas[p] / 100);
    }
    round.play += fmt::format(R"(<RYUUKYOKU ba="0,0" sc="{}"/>)", fmt::join(sc, ","));
  }
  return round;
}

ReplayCounts counts_of(const std::string& xml) { return replay(read_mjlog(xml, "round.mjlog")); }
std::string problem_with(const std::string& xml) {
  try {
    counts_of(xml);
    return "accepted";
  } catch (const FormatError& error) {
    return error.what();
  }
}

TEST(Mjlog, RoundsOfEachOfTenhousGeneratorsAreDealtFromTheirSeed) {
  for (const std::string& seed : {modern_seed(), std::string(kHashed)}) {
    WrittenRound round = write_round(seed);
    round.shuffle = fmt::format(R"(<SHUFFLE seed="{}" ref=""/>)", seed);
    const ReplayCounts counts = counts_of(round.text());
    EXPECT_EQ(counts.rounds, 1);
    EXPECT_EQ(counts.seeded, 1);
  }
  WrittenRound first_years = write_round(kPlain);
  first_years.in_init = fmt::format(R"(shuffle="{}")", kPlain);
  EXPECT_EQ(counts_of(first_years.text()).seeded, 1);
}

// What archives hold has often lost its seed; which of four alike tiles comes when is then anybody's.
TEST(Mjlog, ARoundWithoutASeedOrWithAnUnknownOneIsReplayedFromItsEvents) {
  WrittenRound round = write_round(kHashed);
  for (const char* shuffle :
       {"", R"(<SHUFFLE seed="" ref=""/>)", R"(<SHUFFLE seed="0.7654626590555946" ref=""/>)"}) {
    round.shuffle = shuffle;
    const ReplayCounts counts = counts_of(round.text());
    EXPECT_EQ(counts.rounds, 1) << shuffle;
    EXPECT_EQ(counts.seeded, 0) << shuffle;
  }
}

TEST(Mjlog, ATileThatComesTwiceIsRefusedWithoutASeedToo) {
  WrittenRound round = write_round(kHashed);
  const std::size_t second = round.play.find("<U");
  const std::string first = round.play.substr(2, round.play.find('/') - 2);
  round.play.replace(second + 2, round.play.find('/', second) - second - 2, first);
  EXPECT_NE(problem_with(round.text()).find("tile " + first + " was dealt, drawn or turned over before"),
            std::string::npos)
      << problem_with(round.text());
}

TEST(Mjlog, GamesByOtherRulesAreRefusedByName) {
  const WrittenRound round = write_round(kHashed);
  EXPECT_NE(problem_with(round.text("25")).find("three-player"), std::string::npos);
  EXPECT_NE(problem_with(round.text("553")).find("chips"), std::string::npos);
}

TEST(Mjlog, DisconnectsAndReturnsChangeNothing) {
  WrittenRound round = write_round(kHashed);
  round.play.insert(round.play.find("<U"), R"(<BYE who="2"/><UN n2="%41"/>)");
  EXPECT_EQ(counts_of(round.text()).rounds, 1);
}

// Results of real games: a second place with a half, a loser below zero with one, East games of 2009.
TEST(TenhouResults, ThousandsAreRoundedWithHalvesAwayFromZero) {
  const auto points = [](const std::array<std::int32_t, 4>& scores) {
    return game_result(scores, Rules::tenhou()).points;
  };
  using Points = std::array<double, 4>;
  EXPECT_EQ(points({-600, 36500, 18000, 46100}), (Points{-51, 17, -22, 56}));
  EXPECT_EQ(points({-500, 26600, 29500, 44400}), (Points{-51, -13, 10, 54}));
  EXPECT_EQ(points({40500, 10500, 43500, 5500}), (Points{21, -29, 52, -44}));
}

TEST(TenhouResults, WhichRulesTheyFollowIsToldByThePoints) {
  GameLog log;
  log.end_with({18100, 22900, 27100, 31900}, {-31.9, -17.1, 7.1, 41.9});
  EXPECT_EQ(log.rules.rounding, ResultRounding::None) << "since 2022";
  log.end_with({7500, 45300, 35500, 11700}, {-32, 44, 11, -23});
  EXPECT_EQ(log.rules.uma[0], 20) << "not an East game";
  log.rules.length = GameLength::East;
  log.end_with({7500, 45300, 35500, 11700}, {-32, 44, 11, -23});
  EXPECT_EQ(log.rules.rounding, ResultRounding::Thousands);
  EXPECT_EQ(log.rules.uma, (std::array<std::int16_t, 4>{10, 5, -5, -10}));
}

}  // namespace
}  // namespace ingot::mahjong
