#include <algorithm>

#include <fmt/core.h>

#include "ingot/base/plural.h"
#include "ingot/mahjong/errors.h"
#include "ingot/mahjong/score.h"

namespace ingot::mahjong {
namespace {

void check_meld(const Meld& meld) {
  const std::size_t used = meld.is_kan() ? 3 : 2;
  INGOT_CHECK(meld.called < kTiles && meld.from < 4, InvalidHand("a meld without its called tile"));
  for (std::size_t i = 0; i < 3; ++i)
    INGOT_CHECK(i < used ? meld.consumed[i] < kTiles : meld.consumed[i] == kNoTile,
                InvalidHand(fmt::format("a meld of {} has {} tiles", tile_name(meld.called),
                                        i < used ? "too few" : "too many")));
  if (meld.type == MeldType::Chi) {
    const Kind low = meld.kind();
    KindSet kinds =
        bit(kind_of(meld.called)) | bit(kind_of(meld.consumed[0])) | bit(kind_of(meld.consumed[1]));
    INGOT_CHECK(low < 27 && number_of(low) < 7 && kinds == (KindSet{7} << low),
                InvalidHand(fmt::format("chi of {} with {} and {} is not a run", tile_name(meld.called),
                                        tile_name(meld.consumed[0]), tile_name(meld.consumed[1]))));
    return;
  }
  for (std::size_t i = 0; i < used; ++i)
    INGOT_CHECK(kind_of(meld.consumed[i]) == kind_of(meld.called),
                InvalidHand(fmt::format("{} and {} in one triplet or kan", tile_name(meld.called),
                                        tile_name(meld.consumed[i]))));
}

// What cannot come together, whatever the tiles.
void check_timing(const WinQuery& q) {
  INGOT_CHECK(!q.ippatsu || !q.rinshan, InvalidHand("a kan of one's own ends ippatsu, so rinshan has none"));
  INGOT_CHECK(!q.chankan || !q.last_tile,
              InvalidHand("nobody declares a kan on the last tile, so chankan is not houtei"));
  INGOT_CHECK(!(q.double_riichi && q.ippatsu && q.last_tile),
              InvalidHand("ippatsu after double riichi is a win in the first turns, not on the last tile"));
  const bool uncalled = q.first_turn || (q.double_riichi && q.ippatsu);
  INGOT_CHECK(!uncalled || q.indicators.size() <= 1,
              InvalidHand("a second dora indicator tells of a kan, and before this win there was no call"));
  if (!q.first_turn) return;
  INGOT_CHECK(q.melds.empty(), InvalidHand("a first-turn win has no melds"));
  INGOT_CHECK(!q.riichi && !q.double_riichi,
              InvalidHand("a first-turn win comes before anyone's discard, so before riichi"));
  INGOT_CHECK(!q.last_tile && !q.rinshan,
              InvalidHand("a first-turn win is not on the last tile or after a kan"));
  INGOT_CHECK(q.tsumo || q.seat_wind != 0,
              InvalidHand("the dealer draws first, so a first-turn win of the dealer is by tsumo"));
}

}  // namespace

void check_win_query(const WinQuery& q, const Rules& rules) {
  INGOT_CHECK(q.melds.size() <= 4,
              InvalidHand(fmt::format("{} melds; a hand has at most 4", q.melds.size())));
  const auto wanted = 14 - 3 * q.melds.size();
  INGOT_CHECK(q.hand.size == wanted,
              InvalidHand(fmt::format("{} concealed tiles beside {}, expected {} with the winning tile",
                                      q.hand.size, counted(std::ssize(q.melds), "meld"), wanted)));
  INGOT_CHECK(q.win_tile < kTiles && q.hand.has(q.win_tile),
              InvalidHand(fmt::format("the winning tile {} is not among the concealed tiles",
                                      tile_name(q.win_tile))));
  INGOT_CHECK(q.seat_wind < 4 && q.round_wind < 4, InvalidHand("winds are 0 to 3 (E S W N)"));
  INGOT_CHECK(q.indicators.size() <= 5 && q.ura_indicators.size() <= 5,
              InvalidHand("more than five dora indicators"));
  std::array<int, kKinds> count{};
  std::array<int, 3> reds{};
  const auto add = [&](Tile tile) {
    INGOT_CHECK(tile < kTiles, InvalidHand(fmt::format("{} is not a tile; tiles are 0 to 36", tile)));
    if (is_red(tile)) {
      const auto suit = static_cast<std::size_t>(tile - red_five(0));
      INGOT_CHECK(++reds[suit] <= rules.red_fives[suit],
                  InvalidHand(fmt::format("{} red {} over hand, melds and indicators; the rules have {}",
                                          reds[suit], tile_name(kind_of(tile)), rules.red_fives[suit])));
    }
    INGOT_CHECK(
        ++count[kind_of(tile)] <= 4,
        InvalidHand(fmt::format("five of {} over hand, melds and indicators", tile_name(kind_of(tile)))));
  };
  for (const Tile tile : q.hand.tiles()) add(tile);
  for (const Meld& meld : q.melds) {
    check_meld(meld);
    add(meld.called);
    for (const Tile tile : meld.consumed)
      if (tile != kNoTile) add(tile);
  }
  for (const Tile tile : q.indicators) add(tile);
  for (const Tile tile : q.ura_indicators) add(tile);
  const bool open = std::ranges::any_of(q.melds, &Meld::is_open);
  INGOT_CHECK(!open || !(q.riichi || q.double_riichi), InvalidHand("riichi with an open hand"));
  INGOT_CHECK(!q.ippatsu || q.riichi || q.double_riichi, InvalidHand("ippatsu is a win after riichi"));
  INGOT_CHECK(!q.rinshan || q.tsumo, InvalidHand("rinshan is a win by tsumo"));
  INGOT_CHECK(!q.rinshan || std::ranges::any_of(q.melds, &Meld::is_kan),
              InvalidHand("rinshan is a win after a kan of one's own, and no meld is one"));
  INGOT_CHECK(!q.chankan || !q.tsumo, InvalidHand("chankan is a win by ron"));
  INGOT_CHECK(!q.chankan || count[kind_of(q.win_tile)] == 1,
              InvalidHand(fmt::format("chankan robs the fourth {} of another's kan, so no other can be seen",
                                      tile_name(kind_of(q.win_tile)))));
  check_timing(q);
}

}  // namespace ingot::mahjong
