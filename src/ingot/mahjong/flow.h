#pragma once

#include "ingot/mahjong/table.h"

// How table.cpp (turns and calls) and settle.cpp (ends of rounds) speak to each other.
namespace ingot::mahjong {

/// A player as an index.
inline std::size_t at(int player) { return static_cast<std::size_t>(player); }

/// All who were asked have answered.
void resolve_reactions(Table& table, Events* events);
/// Nobody wins on pub.claimed: the kan stands, or `caller` (-1: nobody) takes the discard, or play goes on.
void go_on(Table& table, int caller, Events* events);
/// `rons`: bit per claimant of pub.claimed.
void end_by_ron(Table& table, unsigned rons, Events* events);
void end_by_tsumo(Table& table, Events* events);
void end_by_exhaustion(Table& table, Events* events);
void end_by_abort(Table& table, DrawReason reason, Events* events);

/// Notes a discard for all to see: the river, safe tiles, copies seen.
void put_in_river(PublicState& pub, int player, const Action& action);
/// After a pon or open kan of `kind` from player `from`: who answers for a yakuman that is now sure.
void note_pao(PublicState& pub, int player, Kind kind, int from);

/// The face of a physical tile: the lowest copies of a five are red, as many as the rules say.
inline Tile tile_of(const Rules& rules, TileId id) {
  const auto kind = static_cast<Kind>(id / 4);
  return is_five(kind) && id % 4 < rules.red_fives[kind / 9U] ? red_five(kind / 9) : kind;
}

}  // namespace ingot::mahjong
