#include "ingot/mahjong/oracle.h"

#include <algorithm>
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/mahjong/shanten.h"

namespace ingot::mahjong {
namespace {

using Encoded = std::vector<float>;

Encoded encoded(const Table& table, int player) {
  Encoded out(static_cast<std::size_t>(kOracleChannels) * kKinds, -1.0F);
  encode_oracle(table, player, out);
  return out;
}
float at(const Encoded& rows, std::size_t channel, std::size_t kind) { return rows[channel * kKinds + kind]; }
// The kind that a one-hot channel names; -1 where it names none.
int kind_in(const Encoded& rows, std::size_t channel) {
  for (std::size_t kind = 0; kind < kKinds; ++kind)
    if (at(rows, channel, kind) == 1) return static_cast<int>(kind);
  return -1;
}

// Random games, calling check(table, player) before every decision.
template <class F>
void random_games(int games, std::uint64_t seed, const F& check) {
  for (int game = 0; game < games; ++game) {
    Table table = start_game({}, seed_from_number(seed + static_cast<std::uint64_t>(game)));
    ChaCha8 random(game_seed(table.session, 99));
    while (!table.over()) {
      if (table.pub.phase == Phase::RoundOver) {
        next_round(table);
        continue;
      }
      const int player = __builtin_ctz(table.to_act());
      check(table, player);
      if (::testing::Test::HasFatalFailure()) return;
      const ActionList legal = legal_actions(table, player);
      apply_trusted(table, player, legal[random.below(static_cast<std::uint32_t>(legal.size()))]);
    }
  }
}

TEST(Oracle, EveryTileThatIsNotOnTheTableIsToldOnce) {
  int compared = 0, kans = 0;
  random_games(6, 1, [&](const Table& table, int player) {
    const Encoded rows = encoded(table, player);
    const Hand& own = table.own[static_cast<std::size_t>(player)].hand;
    int told = 0;
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      int copies = own.count[kind] + table.pub.seen[kind];
      for (std::size_t opponent = 0; opponent < 3; ++opponent)
        for (std::size_t i = 0; i < 4; ++i) copies += at(rows, opponent * 13 + i, kind) == 1;
      for (std::size_t channel = 39; channel < 185; channel += 2) copies += at(rows, channel, kind) == 1;
      // Indicators that are not turned yet, and those under all five.
      for (std::size_t i = table.pub.indicator_count; i < 5; ++i) copies += at(rows, 185 + 2 * i, kind) == 1;
      for (std::size_t i = 0; i < 5; ++i) copies += at(rows, 195 + 2 * i, kind) == 1;
      ASSERT_LE(copies, 4) << "kind " << kind;
      told += copies;
    }
    const bool robbing = table.pub.phase == Phase::Reaction && table.pub.claim_of != ActionType::Discard;
    if (robbing) return;                              // the kan's replacement is still in the dead wall
    ASSERT_EQ(told, kTileIds - table.pub.kan_count);  // each kan puts a tile out of reach
    ++compared;
    kans += table.pub.kan_count > 0 ? 1 : 0;
  });
  EXPECT_GT(compared, 2000);
  EXPECT_GT(kans, 100);
}

TEST(Oracle, TellsOpponentsHandsAsTheyAre) {
  int tenpai = 0, furiten = 0, red = 0;
  random_games(6, 20, [&](const Table& table, int player) {
    const Encoded rows = encoded(table, player);
    for (std::size_t i = 0; i < 3; ++i) {
      const int seat = (player + 1 + static_cast<int>(i)) % 4;
      const PrivateState& own = table.own[static_cast<std::size_t>(seat)];
      const std::size_t first = 13 * i;
      for (std::size_t kind = 0; kind < kKinds; ++kind) {
        for (std::size_t copies = 1; copies <= 4; ++copies)
          ASSERT_EQ(at(rows, first + copies - 1, kind),
                    own.hand.count[kind] >= static_cast<int>(copies) ? 1.0F : 0.0F);
        ASSERT_EQ(at(rows, first + 11, kind), static_cast<float>(own.waits >> kind & 1));
        for (std::size_t suit = 0; suit < 3; ++suit)
          ASSERT_EQ(at(rows, first + 4 + suit, kind), own.hand.has(red_five(static_cast<int>(suit))) ? 1 : 0);
        ASSERT_EQ(at(rows, first + 12, kind), is_furiten(table.pub, own, seat) ? 1.0F : 0.0F);
      }
      const int melds = table.pub.seats[static_cast<std::size_t>(seat)].meld_count;
      const int distance = std::clamp(shanten(own.hand, melds), 0, 3);
      for (int d = 0; d < 4; ++d)
        ASSERT_EQ(at(rows, first + 7 + static_cast<std::size_t>(d), 0), d == distance ? 1.0F : 0.0F);
      tenpai += own.waits != 0 ? 1 : 0;
      furiten += at(rows, first + 12, 0) == 1 ? 1 : 0;
      red += at(rows, first + 4, 0) == 1 ? 1 : 0;
    }
  });
  EXPECT_GT(tenpai, 20);
  EXPECT_GT(furiten, 5);
  EXPECT_GT(red, 100);
}

TEST(Oracle, TheWallsNextTileIsTheOneThatIsDrawn) {
  int drawn = 0, after_kan = 0, left = -1, kans = 0;
  std::array<int, 2> next{}, replacement{};  // kind and red
  random_games(6, 40, [&](const Table& table, int player) {
    const Tile tile = table.own[table.pub.actor].drawn;
    if (table.pub.phase == Phase::Turn && tile != kNoTile && table.pub.kan_count >= kans) {
      const std::array now{static_cast<int>(kind_of(tile)), static_cast<int>(is_red(tile))};
      if (table.pub.live_left == left - 1 && table.pub.kan_count == kans && !table.pub.rinshan) {
        ASSERT_EQ(now, next);
        ++drawn;
      } else if (table.pub.rinshan && table.pub.kan_count == kans + 1) {
        ASSERT_EQ(now, replacement);
        ++after_kan;
      }
    }
    const Encoded rows = encoded(table, player);
    left = table.pub.live_left;
    kans = table.pub.kan_count;
    next = {kind_in(rows, 39), static_cast<int>(at(rows, 40, 0))};
    const std::size_t kan = 177 + 2 * static_cast<std::size_t>(std::min(kans, 3));
    replacement = {kind_in(rows, kan), static_cast<int>(at(rows, kan + 1, 0))};
  });
  EXPECT_GT(drawn, 1000);
  EXPECT_GT(after_kan, 5);
}

TEST(Oracle, ABufferOfAnotherSizeIsRefused) {
  const Table table = start_game({}, seed_from_number(1));
  std::vector<float> small(34);
  EXPECT_THROW(encode_oracle(table, 0, small), ShapeMismatch);
}

}  // namespace
}  // namespace ingot::mahjong
