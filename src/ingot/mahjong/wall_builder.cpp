#include "ingot/mahjong/wall_builder.h"

#include <bitset>

#include <fmt/core.h>

#include "ingot/mahjong/errors.h"
#include "ingot/mahjong/flow.h"

namespace ingot::mahjong {
namespace {

constexpr TileId kEmpty = 255;

class Builder {
 public:
  explicit Builder(const Rules& rules) : rules_(rules) { wall_.fill(kEmpty); }

  void put(std::size_t place, Tile tile) {
    INGOT_CHECK(tile < kTiles,
                InvalidHand("a tile of the round is hidden; only logs that show every hand can be played"));
    INGOT_CHECK(place < kTileIds && wall_[place] == kEmpty,
                InvalidHand("more tiles are drawn than the wall holds"));
    const Kind kind = kind_of(tile);
    for (int copy = 0; copy < 4; ++copy) {
      const auto id = static_cast<TileId>(4 * kind + copy);
      if (used_[id] || tile_of(rules_, id) != tile) continue;
      used_.set(id);
      wall_[place] = id;
      return;
    }
    throw InvalidHand(fmt::format("the round shows more of {} than there are", tile_name(tile)));
  }

  Wall finish() {
    TileId next = 0;
    for (TileId& place : wall_) {
      if (place != kEmpty) continue;
      while (used_[next]) ++next;
      used_.set(next);
      place = next;
    }
    return wall_;
  }

 private:
  const Rules& rules_;
  Wall wall_;
  std::bitset<kTileIds> used_;
};

}  // namespace

Wall build_wall(const Rules& rules, const Events& events) {
  Builder builder(rules);
  const Event& start = events.at(0);
  std::array<std::size_t, 4> dealt{};
  std::size_t place = kTileIds;
  for (unsigned block = 0; block < 4; ++block)
    for (unsigned i = 0; i < 4; ++i)
      for (unsigned n = 0; n < (block < 3 ? 4U : 1U); ++n) {
        const std::size_t player = (start.dealer + i) % 4;
        builder.put(--place, start.hands[player][dealt[player]++]);
      }
  builder.put(5, start.tile);
  std::size_t draws = place, kans = 0, doras = 1, ura = 0;
  bool after_kan = false;
  for (const Event& event : events) {
    switch (event.type) {
      case EventType::Tsumo:
        INGOT_CHECK(!after_kan || kans <= 4, InvalidHand("more than four kans in one round"));
        builder.put(after_kan ? kRinshanPlaces[kans - 1] : --draws, event.tile);
        after_kan = false;
        break;
      case EventType::Daiminkan:
      case EventType::Kakan:
      case EventType::Ankan:
        ++kans;
        after_kan = true;
        break;
      case EventType::Dora:
        INGOT_CHECK(doras < 5, InvalidHand("more than five dora indicators in one round"));
        builder.put(5 + 2 * doras++, event.tile);
        break;
      case EventType::Hora:
        for (; ura < event.ura_count; ++ura) builder.put(4 + 2 * ura, event.ura[ura]);
        break;
      default:
        break;
    }
  }
  return builder.finish();
}

}  // namespace ingot::mahjong
