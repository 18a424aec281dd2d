#include "ingot/mahjong/tile.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "ingot/mahjong/errors.h"

namespace ingot::mahjong {
namespace {

constexpr std::array<std::string_view, kTiles> kNames = {
    "1m", "2m", "3m", "4m", "5m", "6m", "7m", "8m", "9m",  "1p",  "2p", "3p", "4p",
    "5p", "6p", "7p", "8p", "9p", "1s", "2s", "3s", "4s",  "5s",  "6s", "7s", "8s",
    "9s", "E",  "S",  "W",  "N",  "P",  "F",  "C",  "5mr", "5pr", "5sr"};
constexpr std::string_view kSuits = "mpsz";

}  // namespace

std::string_view tile_name(Tile tile) { return tile < kTiles ? kNames[tile] : "?"; }

Tile parse_tile(std::string_view name) {
  if (name.size() >= 2 && name[0] >= '0' && name[0] <= '9') {
    const std::size_t suit = kSuits.find(name[1]);
    if (suit >= 3) return kNoTile;
    const int number = name[0] - '0';
    if (name.size() == 3 && name[2] == 'r' && number == 5) return red_five(static_cast<int>(suit));
    if (name.size() != 2 || number == 0) return kNoTile;
    return static_cast<Tile>(9 * static_cast<int>(suit) + number - 1);
  }
  for (Tile tile = 27; tile < 34; ++tile)
    if (kNames[tile] == name) return tile;
  return kNoTile;
}

std::vector<Tile> parse_tiles(std::string_view text) {
  std::vector<Tile> tiles;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c >= '0' && c <= '9') continue;
    const std::size_t suit = kSuits.find(c);
    INGOT_CHECK(suit != std::string_view::npos && i > start,
                InvalidHand(fmt::format(
                    "\"{}\": found '{}' at character {}; write digits and then m, p, s or z, as in "
                    "123m055p11z",
                    text, c, i + 1)));
    for (std::size_t d = start; d < i; ++d) {
      const int number = text[d] - '0';
      INGOT_CHECK(suit < 3 || (number >= 1 && number <= 7),
                  InvalidHand(fmt::format("\"{}\": {}z is not a tile; honours are 1z to 7z", text, number)));
      tiles.push_back(number == 0 ? red_five(static_cast<int>(suit))
                                  : static_cast<Tile>(9 * static_cast<int>(suit) + number - 1));
    }
    start = i + 1;
  }
  INGOT_CHECK(start == text.size(),
              InvalidHand(fmt::format("\"{}\": the digits at the end have no suit; add m, p, s or z", text)));
  return tiles;
}

std::string format_tiles(std::vector<Tile> tiles) {
  std::sort(tiles.begin(), tiles.end(), [](Tile a, Tile b) {
    return std::pair(kind_of(a), !is_red(a)) < std::pair(kind_of(b), !is_red(b));
  });
  std::string text;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const Kind kind = kind_of(tiles[i]);
    text += is_red(tiles[i]) ? '0' : static_cast<char>('1' + number_of(kind));
    if (i + 1 == tiles.size() || suit_of(kind_of(tiles[i + 1])) != suit_of(kind))
      text += kSuits[static_cast<std::size_t>(suit_of(kind))];
  }
  return text;
}

}  // namespace ingot::mahjong
