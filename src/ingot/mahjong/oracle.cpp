#include "ingot/mahjong/oracle.h"

#include <algorithm>
#include <array>
#include <bit>

#include "ingot/mahjong/flow.h"
#include "ingot/mahjong/shanten.h"
#include "ingot/mahjong/simd.h"

// Each row is 64 bits that describe it, as in encoder.cpp.
namespace ingot::mahjong {
namespace {

using simd::RowType;

constexpr std::size_t kRows = kOracleChannels;
constexpr std::size_t kOpponentRows = 13, kDraws = 69, kKans = 4, kIndicators = 5;
constexpr std::size_t kFirstDrawRow = 3 * kOpponentRows, kFirstKanRow = kFirstDrawRow + 2 * kDraws,
                      kFirstDoraRow = kFirstKanRow + 2 * kKans,
                      kFirstUraRow = kFirstDoraRow + 2 * kIndicators;
static_assert(kFirstUraRow + 2 * kIndicators == kRows);

constexpr auto kRowTypes = [] {
  std::array<RowType, kRows> types{};
  for (std::size_t opponent = 0; opponent < 3; ++opponent)
    for (const std::size_t row : {4U, 5U, 6U, 7U, 8U, 9U, 10U, 12U})
      types[opponent * kOpponentRows + row] = RowType::Fill;
  for (std::size_t row = kFirstDrawRow + 1; row < kRows; row += 2) types[row] = RowType::Fill;
  return types;
}();

std::uint64_t fill(bool holds) { return std::bit_cast<std::uint32_t>(holds ? 1.0F : 0.0F); }

void opponent_rows(const Table& table, int player, std::uint64_t* rows) {
  const PrivateState& own = table.own[static_cast<std::size_t>(player)];
  const Hand& hand = own.hand;
  rows[0] = hand.count.kinds();
  rows[1] = hand.count.pairs();
  rows[2] = hand.count.triplets();
  rows[3] = hand.count.quads();
  for (std::size_t suit = 0; suit < 3; ++suit) rows[4 + suit] = fill(hand.red[suit] > 0);
  const int melds = table.pub.seats[static_cast<std::size_t>(player)].meld_count;
  const int distance = std::clamp(shanten(hand, melds), 0, 3);
  for (int i = 0; i < 4; ++i) rows[7 + i] = fill(i == distance);
  rows[11] = own.waits;
  rows[12] = fill(is_furiten(table.pub, own, player));
}

// A tile's kind, and whether it is a red five.
void tile_rows(const Table& table, std::size_t place, std::uint64_t* rows) {
  const Tile tile = tile_of(table.pub.rules, table.wall[place]);
  rows[0] = bit(kind_of(tile));
  rows[1] = fill(is_red(tile));
}

}  // namespace

void encode_oracle(const Table& table, int player, std::span<float> out) {
  INGOT_CHECK(out.size() == kRows * kKinds, ShapeMismatch("mahjong::encode_oracle", {kOracleChannels, kKinds},
                                                          {static_cast<std::int64_t>(out.size())}));
  std::array<std::uint64_t, kRows> rows{};
  for (std::size_t i = 0; i < 3; ++i)
    opponent_rows(table, (player + 1 + static_cast<int>(i)) % 4, rows.data() + i * kOpponentRows);
  const std::size_t draws = std::min<std::size_t>(table.pub.live_left, kDraws);
  for (std::size_t i = 0; i < draws; ++i)
    tile_rows(table, table.next_draw - i, rows.data() + kFirstDrawRow + 2 * i);
  for (std::size_t kan = table.pub.kan_count; kan < kKans; ++kan)
    tile_rows(table, kRinshanPlaces[kan], rows.data() + kFirstKanRow + 2 * kan);
  for (std::size_t i = 0; i < kIndicators; ++i) {
    tile_rows(table, 5 + 2 * i, rows.data() + kFirstDoraRow + 2 * i);
    tile_rows(table, 4 + 2 * i, rows.data() + kFirstUraRow + 2 * i);
  }
  simd::write_rows(rows.data(), kRowTypes.data(), kRows, out.data());
}

}  // namespace ingot::mahjong
