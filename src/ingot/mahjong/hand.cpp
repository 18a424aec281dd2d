#include "ingot/mahjong/hand.h"

#include <fmt/core.h>

#include "ingot/mahjong/errors.h"

namespace ingot::mahjong {

std::vector<Tile> Hand::tiles() const {
  std::vector<Tile> all;
  all.reserve(size);
  for (Kind kind = 0; kind < kKinds; ++kind) {
    const int reds = is_five(kind) ? red[kind / 9U] : 0;
    for (int i = 0; i < count[kind]; ++i) all.push_back(i < reds ? red_five(kind / 9) : kind);
  }
  return all;
}

Hand make_hand(std::span<const Tile> tiles) {
  INGOT_CHECK(tiles.size() <= 14,
              InvalidHand(fmt::format("a hand holds at most 14 concealed tiles, got {}", tiles.size())));
  Hand hand;
  for (const Tile tile : tiles) {
    INGOT_CHECK(tile < kTiles, InvalidHand(fmt::format("{} is not a tile; tiles are 0 to 36", tile)));
    INGOT_CHECK(
        hand.count[kind_of(tile)] < 4,
        InvalidHand(fmt::format("five of {}; there are four of each tile", tile_name(kind_of(tile)))));
    hand.add(tile);
  }
  return hand;
}

Hand make_hand(std::string_view text) { return make_hand(parse_tiles(text)); }

}  // namespace ingot::mahjong
