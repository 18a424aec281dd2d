#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::mahjong {

/// What a player tells apart: 0-8 = 1m..9m, 9-17 = 1p..9p, 18-26 = 1s..9s, 27-33 = E S W N haku hatsu chun,
/// 34, 35, 36 = the red fives of m, p, s. The numbers are those of the discard actions.
using Tile = std::uint8_t;
/// A Tile without its colour: 0-33.
using Kind = std::uint8_t;
/// One physical tile: 4 * kind + copy, 0-135, as Tenhou numbers them.
using TileId = std::uint8_t;
/// Bit k stands for kind k.
using KindSet = std::uint64_t;

inline constexpr int kKinds = 34;
inline constexpr int kTiles = 37;
inline constexpr int kTileIds = 136;
inline constexpr Tile kNoTile = 255;

constexpr bool is_red(Tile tile) { return tile >= 34 && tile < kTiles; }
constexpr Kind kind_of(Tile tile) { return tile < 34 ? tile : static_cast<Kind>(4 + 9 * (tile - 34)); }
constexpr int suit_of(Kind kind) { return kind / 9; }    // 0 m, 1 p, 2 s, 3 honours
constexpr int number_of(Kind kind) { return kind % 9; }  // 0-8; of honours 0-6
constexpr bool is_honor(Kind kind) { return kind >= 27; }
constexpr bool is_five(Kind kind) { return kind == 4 || kind == 13 || kind == 22; }
/// The red five of suit 0-2.
constexpr Tile red_five(int suit) { return static_cast<Tile>(34 + suit); }

constexpr KindSet bit(Kind kind) { return KindSet{1} << kind; }
inline constexpr KindSet kAllKinds = (KindSet{1} << kKinds) - 1;
inline constexpr KindSet kHonors = KindSet{0x7F} << 27;
inline constexpr KindSet kTerminals = bit(0) | bit(8) | bit(9) | bit(17) | bit(18) | bit(26);
inline constexpr KindSet kYaochuu = kTerminals | kHonors;
inline constexpr KindSet kWinds = KindSet{0xF} << 27;
inline constexpr KindSet kDragons = KindSet{0x7} << 31;
/// 2 3 4 6 8 of bamboo and hatsu: the tiles of ryuuiisou.
inline constexpr KindSet kGreens = bit(19) | bit(20) | bit(21) | bit(23) | bit(25) | bit(32);

/// Calls f(kind) for each member, lowest first.
template <class F>
constexpr void for_each_kind(KindSet set, F&& f) {
  for (; set != 0; set &= set - 1) f(static_cast<Kind>(__builtin_ctzll(set)));
}

/// The dora that an indicator points at: the next number, wind or dragon, going round.
constexpr Kind dora_of(Kind indicator) {
  if (indicator < 27) return static_cast<Kind>(number_of(indicator) == 8 ? indicator - 8 : indicator + 1);
  if (indicator < 31) return static_cast<Kind>(indicator == 30 ? 27 : indicator + 1);
  return static_cast<Kind>(indicator == 33 ? 31 : indicator + 1);
}

/// The name mjai uses: "1m" .. "9s", "5mr", E S W N P F C, and "?" for kNoTile.
std::string_view tile_name(Tile tile);
/// The inverse of tile_name; kNoTile for what is not a tile's name.
Tile parse_tile(std::string_view name);

/// Reads "123m055p11z" (0 = red five; z: 1-4 = E S W N, 5-7 = haku hatsu chun). Throws InvalidHand.
std::vector<Tile> parse_tiles(std::string_view text);
/// The inverse, sorted by kind, a red five before plain ones.
std::string format_tiles(std::vector<Tile> tiles);

}  // namespace ingot::mahjong
