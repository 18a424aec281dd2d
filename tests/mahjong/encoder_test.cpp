#include "ingot/mahjong/encoder.h"

#include <cmath>
#include <map>

#include "tests/mahjong/scene.h"
#include <gtest/gtest.h>

#include "ingot/mahjong/wall_builder.h"

namespace ingot::mahjong {
namespace {

using Rows = std::vector<float>;
using Row = std::map<std::string, float>;  // what is not 0, by tile

Row row_of(const Rows& rows, int channel) {
  Row row;
  for (Kind kind = 0; kind < kKinds; ++kind) {
    const float value = rows[static_cast<std::size_t>(channel) * kKinds + kind];
    if (value != 0) row[std::string(tile_name(kind))] = value;
  }
  return row;
}
Row ones(const std::string& tiles) {
  Row row;
  for (const Tile tile : parse_tiles(tiles)) row[std::string(tile_name(kind_of(tile)))] = 1;
  return row;
}
void expect_fill(const Rows& rows, int channel, float value) {
  for (Kind kind = 0; kind < kKinds; ++kind)
    ASSERT_FLOAT_EQ(rows[static_cast<std::size_t>(channel) * kKinds + kind], value) << channel;
}

// East 1: player 0 discards N, player 1 5s from its hand, player 2 the 4m it drew, player 3 9p from its hand;
// player 0 has drawn 8s.
Table position() {
  Event start;
  start.type = EventType::StartKyoku;
  start.tile = parse_tile(std::string_view("3s"));
  start.scores.fill(25000);
  const char* hands[] = {"11123m056p77s111z", "189m147p258s2345z", "2379m258p69s2346z", "258m369p147s3467z"};
  for (std::size_t p = 0; p < 4; ++p) {
    const auto tiles = parse_tiles(hands[p]);
    std::copy(tiles.begin(), tiles.end(), start.hands[p].begin());
  }
  Events events{start};
  const char* draws[] = {"N", "9s", "4m", "P", "8s"};
  for (std::size_t i = 0; i < 5; ++i) {
    Event draw;
    draw.type = EventType::Tsumo;
    draw.actor = static_cast<std::uint8_t>(i % 4);
    draw.tile = parse_tile(std::string_view(draws[i]));
    events.push_back(draw);
  }
  RoundStart round;
  round.scores.fill(25000);
  Table t = start_round(Rules::tenhou(), round, build_wall(Rules::tenhou(), events));
  const auto discard = [&](int player, const char* tile, bool drawn) {
    apply(t, player, Action::discard(parse_tile(std::string_view(tile)), drawn));
    while (t.pub.phase == Phase::Reaction) apply(t, __builtin_ctz(t.to_act()), Action::pass());
  };
  discard(0, "N", true);
  discard(1, "5s", false);
  discard(2, "4m", true);
  discard(3, "9p", false);
  return t;
}

TEST(Encoder, AHandWrittenPositionHasTheExpectedRows) {
  Rows rows(kChannels * kKinds);
  encode(observe(position(), 0), rows);
  EXPECT_EQ(row_of(rows, 0), ones("123m56p78s1z"));
  EXPECT_EQ(row_of(rows, 1), ones("1m5p7s1z") /* two 5p: one red */) << "two copies";
  EXPECT_EQ(row_of(rows, 2), ones("1m1z"));
  EXPECT_EQ(row_of(rows, 3), Row{});
  EXPECT_EQ(row_of(rows, 8), ones("8s"));
  EXPECT_EQ(row_of(rows, 11), ones("4z"));
  EXPECT_EQ(row_of(rows, 12), Row{});
  EXPECT_EQ(row_of(rows, 13), ones("4z"));
  EXPECT_EQ(row_of(rows, 14), ones("5s"));
  EXPECT_EQ(row_of(rows, 15), ones("5s"));
  EXPECT_EQ(row_of(rows, 17), ones("4m"));
  EXPECT_EQ(row_of(rows, 18), Row{});
  EXPECT_EQ(row_of(rows, 20), ones("9p"));
  EXPECT_EQ(row_of(rows, 21), ones("9p"));
  for (int channel = 23; channel < 35; ++channel) EXPECT_EQ(row_of(rows, channel), Row{});
  EXPECT_EQ(row_of(rows, 35), ones("3s"));
  EXPECT_EQ(row_of(rows, 36), Row{});
  expect_fill(rows, 40, 0);
  expect_fill(rows, 41, 1);
  expect_fill(rows, 42, 0);
  for (int channel = 43; channel < 47; ++channel) expect_fill(rows, channel, 0);
  for (int channel = 47; channel < 51; ++channel) expect_fill(rows, channel, 0.25F);
  for (int channel = 51; channel < 55; ++channel) expect_fill(rows, channel, 0);
  expect_fill(rows, 55, 0);
  expect_fill(rows, 56, 1);  // 111m EEE, 23m, 56p and a pair: one from tenpai
  expect_fill(rows, 57, 0);
  EXPECT_EQ(row_of(rows, 10), Row{});
  EXPECT_TRUE(row_of(rows, 9).count("8s"));
  EXPECT_FALSE(row_of(rows, 9).count("E"));
  expect_fill(rows, 59, 0);
  EXPECT_EQ(row_of(rows, 62), ones("5s"));
  EXPECT_EQ(row_of(rows, 63), ones("4m"));
  EXPECT_EQ(row_of(rows, 64), ones("9p"));
  EXPECT_EQ(row_of(rows, 65), ones("5s"));
  EXPECT_EQ(row_of(rows, 66), Row{});
  EXPECT_EQ(row_of(rows, 67), ones("9p"));
  EXPECT_EQ(row_of(rows, 71), ones("28s"));
  EXPECT_EQ(row_of(rows, 72), ones("17m"));
  EXPECT_EQ(row_of(rows, 73), (Row{{"6p", 0.5F}}));
  EXPECT_EQ(row_of(rows, 74), Row{});
  EXPECT_EQ(row_of(rows, 76), ones("6p"));
  EXPECT_EQ(row_of(rows, 77), ones("46s"));
  EXPECT_EQ(row_of(rows, 78), Row{});
  EXPECT_EQ(row_of(rows, 79), ones("8p"));
  EXPECT_EQ(row_of(rows, 80), Row{});
  EXPECT_EQ(row_of(rows, 81), ones("1m1z"));
}

// East 1 with calls, a riichi and a kan, seen by the dealer. Player 1 called pon of 1p and chi of 3m from the
// dealer and discarded 9p, 8p; player 2 declared riichi with the 1z it drew, then drew and discarded 9m;
// player 3 discarded 8m from its hand and the 6z it drew. The dealer closed a kan of 7s and drew the third
// 2z.
Observation busy_position() {
  Deal s;
  s.hands = {"19m146p05777s223z", "24m1189p258s3467z", "234567m22678p34s", "258m369p146s1456z"};
  s.draws = "3m1z9s4m9m6z7s";
  s.rinshan = "2z";
  s.dora = "9s9s";
  s.honba = 1;
  s.scores = {26000, 25000, 24000, 25000};
  Scene scene(s);
  scene.discard("1p", {{1, pon("1p")}});
  scene.discard("9p");
  scene.riichi("1z");
  scene.discard("8m");
  scene.discard("3m", {{1, chi("3m", "24m")}});
  scene.discard("8p");
  scene.discard("9m");
  scene.discard("6z");
  scene.ankan("7s");
  return observe(scene.table, 0);
}

Row aged(const std::string& latest, const std::string& before) {
  Row row = ones(latest);
  for (const auto& [name, one] : ones(before)) row[name] = std::exp(-0.2F);
  return row;
}

void expect_near(const Row& row, const Row& expected, int channel) {
  ASSERT_EQ(row.size(), expected.size()) << channel;
  for (const auto& [name, value] : expected)
    EXPECT_FLOAT_EQ(row.count(name) != 0 ? row.at(name) : 0, value) << channel << ' ' << name;
}

TEST(Encoder, APositionWithCallsRiichiAndAKanHasTheExpectedRows) {
  Rows rows(kChannels * kKinds);
  encode(busy_position(), rows);
  const std::map<int, const char*> sets = {{0, "149m46p5s23z"},
                                           {1, "5s2z"},
                                           {2, "2z"},
                                           {4, "7s"},
                                           {5, "7s"},
                                           {6, "7s"},
                                           {7, "7s"},
                                           {8, "2z"},
                                           {9, "149m46p5s23z"},  // three from tenpai before the draw: every
                                                                 // discard keeps that
                                           {10, "149m3z"},       // 7777s, 222z, 55s and 46p: two from tenpai
                                           {11, "3m1p"},
                                           {12, "3m1p"},
                                           {14, "89p"},
                                           {15, "89p"},
                                           {17, "9m1z"},
                                           {20, "8m6z"},
                                           {21, "8m"},
                                           {25, "7s"},
                                           {26, "234m"},
                                           {27, "1p"},
                                           {35, "9s"},
                                           {36, "9s"},
                                           {62, "89p"},
                                           {63, "389m8p16z"},
                                           {64, "8m6z"},
                                           {65, "89p"},
                                           {67, "8m"},
                                           {69, "389m8p16z"},
                                           {74, "56p"},
                                           {75, "5m5p"},
                                           {76, "5m"},
                                           {77, "789p"},
                                           {79, "79m"},
                                           {80, "7s"},
                                           {81, "1p2z"}};
  const std::map<int, Row> values = {{13, aged("3m", "1p")},
                                     {16, aged("8p", "9p")},
                                     {19, aged("9m", "1z")},
                                     {22, aged("6z", "8m")},
                                     {71, {{"5p", 0.5F}, {"6p", 0.5F}}},
                                     {72, {{"6m", 1.0F}, {"5m", 0.5F}, {"5p", 0.5F}}},
                                     {73, {{"5m", 0.5F}}}};
  const std::map<int, float> fills = {{42, 1},     {45, 1},         {47, 0.26F}, {48, 0.25F},     {49, 0.23F},
                                      {50, 0.25F}, {52, 1.0F / 30}, {53, 0.1F},  {54, 1.0F / 30}, {57, 1},
                                      {60, 0.1F},  {61, 0.1F},      {83, 1}};
  for (int channel = 0; channel < kChannels; ++channel) {
    if (const auto set = sets.find(channel); set != sets.end())
      EXPECT_EQ(row_of(rows, channel), ones(set->second)) << channel;
    else if (const auto value = values.find(channel); value != values.end())
      expect_near(row_of(rows, channel), value->second, channel);
    else
      expect_fill(rows, channel, fills.count(channel) != 0 ? fills.at(channel) : 0);
  }
}

TEST(Encoder, TheOldGenbutsuForgetsWhatOthersDiscardedSinceARiichi) {
  Rows rows(kChannels * kKinds);
  EncoderOptions options;
  options.old_genbutsu = true;
  encode(busy_position(), rows, options);
  EXPECT_EQ(row_of(rows, 63), ones("9m1z"));
  EXPECT_EQ(row_of(rows, 69), ones("9m1z"));
  EXPECT_EQ(row_of(rows, 72), (Row{{"6m", 0.5F}}));
}

TEST(Encoder, TheOldGapIsTheirScoreMinusMine) {
  Rows rows(kChannels * kKinds);
  EncoderOptions options;
  options.old_gap_sign = true;
  encode(busy_position(), rows, options);
  expect_fill(rows, 52, -1.0F / 30);
  expect_fill(rows, 53, -0.1F);
}

TEST(Encoder, TheOldSafetyOrderPutsOneOpponentsChannelsTogether) {
  Rows now(kChannels * kKinds), old(now.size());
  EncoderOptions options;
  options.old_safety_order = true;
  const Observation o = observe(position(), 0);
  encode(o, now);
  encode(o, old, options);
  for (int opponent = 0; opponent < 3; ++opponent)
    for (int kind = 0; kind < 3; ++kind)
      EXPECT_EQ(row_of(old, 62 + 3 * opponent + kind), row_of(now, 62 + 3 * kind + opponent));
}

TEST(Encoder, TheOldVisibleCountsMissTheOwnHand) {
  Rows rows(kChannels * kKinds);
  EncoderOptions options;
  options.old_visible = true;
  encode(observe(position(), 0), rows, options);
  EXPECT_EQ(row_of(rows, 81), Row{});
  encode(busy_position(), rows, options);
  EXPECT_EQ(row_of(rows, 80), Row{}) << "nor the own kan";
  EXPECT_EQ(row_of(rows, 81), Row{}) << "nor the own discard that was called";
}

TEST(Encoder, TheContextNamesWindsTilesLeftAndLegalActions) {
  EncoderOptions options;
  options.context = true;
  Rows rows(static_cast<std::size_t>(options.channels()) * kKinds);
  encode(observe(position(), 0), rows, options);
  expect_fill(rows, 85, 65.0F / 70.0F);
  EXPECT_EQ(row_of(rows, 86), ones("1z"));
  EXPECT_EQ(row_of(rows, 87), ones("1z"));
  expect_fill(rows, 88, 0);
  EXPECT_EQ(row_of(rows, 90), ones("123m56p78s1z"));
  expect_fill(rows, 91, 0);
  encode(observe(position(), 3), rows, options);
  EXPECT_EQ(row_of(rows, 87), ones("4z"));
  EXPECT_EQ(row_of(rows, 90), Row{});
}

TEST(Encoder, ABufferOfAnotherSizeIsRefused) {
  Rows rows(10);
  EXPECT_THROW(encode(observe(position(), 0), rows), ShapeMismatch);
}

}  // namespace
}  // namespace ingot::mahjong
