#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "ingot/mahjong/hand.h"
#include "ingot/mahjong/rules.h"

namespace ingot::mahjong {

enum class MeldType : std::uint8_t { Chi, Pon, Daiminkan, Kakan, Ankan };

/// A called group. `called` came from player `from` (of an ankan: one of its own tiles and itself);
/// `consumed` are the hand's tiles, of a kakan with the tile added to the pon last; unused ones are kNoTile.
struct Meld {
  MeldType type = MeldType::Chi;
  std::uint8_t from = 0;
  Tile called = kNoTile;
  std::array<Tile, 3> consumed = {kNoTile, kNoTile, kNoTile};

  bool is_kan() const { return type >= MeldType::Daiminkan; }
  bool is_open() const { return type != MeldType::Ankan; }
  int size() const { return is_kan() ? 4 : 3; }
  /// The kind of the triplet or kan, of a run its lowest.
  Kind kind() const {
    const Kind first = kind_of(called);
    return type == MeldType::Chi ? std::min({first, kind_of(consumed[0]), kind_of(consumed[1])}) : first;
  }
  friend bool operator==(const Meld&, const Meld&) = default;
};
/// The tiles of all the melds.
inline KindCounts count_tiles(std::span<const Meld> melds) {
  KindCounts count;
  for (const Meld& meld : melds) {
    count.add(kind_of(meld.called));
    for (const Tile tile : meld.consumed)
      if (tile != kNoTile) count.add(kind_of(tile));
  }
  return count;
}

/// Tenhou's numbers, which its logs use.
enum class Yaku : std::uint8_t {
  MenzenTsumo,
  Riichi,
  Ippatsu,
  Chankan,
  Rinshan,
  Haitei,
  Houtei,
  Pinfu,
  Tanyao,
  Iipeikou,
  SeatEast,
  SeatSouth,
  SeatWest,
  SeatNorth,
  RoundEast,
  RoundSouth,
  RoundWest,
  RoundNorth,
  Haku,
  Hatsu,
  Chun,
  DoubleRiichi,
  Chiitoitsu,
  Chanta,
  Ittsu,
  SanshokuDoujun,
  SanshokuDoukou,
  Sankantsu,
  Toitoi,
  Sanankou,
  Shousangen,
  Honroutou,
  Ryanpeikou,
  Junchan,
  Honitsu,
  Chinitsu,
  Renhou,
  Tenhou,
  Chiihou,
  Daisangen,
  Suuankou,
  SuuankouTanki,
  Tsuuiisou,
  Ryuuiisou,
  Chinroutou,
  ChuurenPoutou,
  JunseiChuuren,
  Kokushi,
  Kokushi13,
  Daisuushii,
  Shousuushii,
  Suukantsu,
  Dora,
  UraDora,
  RedDora,
  kCount
};
std::string_view yaku_name(Yaku yaku);
/// Han of an ordinary yaku: closed or open. 0 where the open form does not exist.
int yaku_han(Yaku yaku, bool open);

/// Everything that a hand's value depends on. `hand` holds the concealed tiles with the winning one.
struct WinQuery {
  const Hand& hand;
  std::span<const Meld> melds;
  Tile win_tile;
  bool tsumo = false;
  bool riichi = false, double_riichi = false, ippatsu = false;
  bool last_tile = false;  ///< haitei or houtei
  bool rinshan = false, chankan = false;
  bool first_turn = false;  ///< before anyone called, on one's first draw (tsumo) or before it (ron: renhou)
  std::uint8_t seat_wind = 0;  ///< 0-3 = E S W N
  std::uint8_t round_wind = 0;
  std::span<const Tile> indicators = {};
  std::span<const Tile> ura_indicators = {};  ///< counted only with riichi
};

/// What a hand is worth under one reading, the best.
struct WinScore {
  std::uint64_t yaku = 0;    ///< bit Yaku::x; dora bits are set where their number below is not 0
  std::uint8_t han = 0;      ///< with dora; 13 per yakuman
  std::uint8_t fu = 0;       ///< rounded; 0 for yakuman by shape
  std::uint8_t yakuman = 0;  ///< how many times (kazoe: 1 with han >= 13 and no yakuman yaku)
  std::uint8_t dora = 0, ura = 0, red = 0;
  std::int32_t base = 0;  ///< basic points: 8000 per yakuman, at most 6000 below

  bool has(Yaku y) const { return (yaku >> static_cast<unsigned>(y) & 1) != 0; }
  bool is_win() const { return base > 0; }
  friend bool operator==(const WinScore&, const WinScore&) = default;
};

/// The best reading, or one with base 0 if the tiles are not complete or have no yaku. Does not check the
/// tiles.
WinScore score_win(const WinQuery& query, const Rules& rules);
/// Throws InvalidHand for impossible tiles first: wrong counts, five of a kind over hand, melds and
/// indicators, more red fives than the rules have, a winning tile that is not in the hand, melds that are
/// none, rinshan without a kan, a robbed tile that is seen elsewhere, events that exclude each other.
void check_win_query(const WinQuery& query, const Rules& rules = {});

/// The points for `base`: what the discarder pays, or on tsumo each non-dealer and the dealer. Without honba.
struct Payment {
  std::int32_t ron, from_non_dealer, from_dealer;
};
Payment payment_for(std::int32_t base, bool winner_is_dealer);

/// Basic points of han and fu under the rules (limits, kiriage, kazoe).
std::int32_t base_points(int han, int fu, const Rules& rules);

/// How many ways a complete standard hand splits into groups and a pair.
int count_readings(const Hand& hand, int melds);

}  // namespace ingot::mahjong
