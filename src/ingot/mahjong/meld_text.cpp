#include "ingot/mahjong/meld_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/mahjong/errors.h"

namespace ingot::mahjong {

Meld parse_meld(std::string_view text) {
  const bool closed = text.starts_with('-');
  const std::vector<Tile> tiles = parse_tiles(closed ? text.substr(1) : text);
  if (tiles.size() < 3 || tiles.size() > 4)
    throw InvalidHand(
        fmt::format("meld \"{}\" has {} tiles; write 3 or 4, a closed kan as -1111z", text, tiles.size()));
  Meld meld;
  if (closed && tiles.size() != 4)
    throw InvalidHand(fmt::format(
        "meld \"{}\" has {} tiles; a '-' marks a closed kan, which has 4: write -1111z", text, tiles.size()));
  const bool run = kind_of(tiles[0]) != kind_of(tiles[1]);
  meld.type = run                 ? MeldType::Chi
              : tiles.size() == 3 ? MeldType::Pon
              : closed            ? MeldType::Ankan
                                  : MeldType::Daiminkan;
  meld.called = tiles[0];
  std::copy(tiles.begin() + 1, tiles.end(), meld.consumed.begin());
  return meld;
}

}  // namespace ingot::mahjong
