#pragma once

#include "ingot/mahjong/table.h"

// How table.cpp (turns and calls) and settle.cpp (ends of rounds) speak to each other.
namespace ingot::mahjong {

/// All who were asked have answered.
void resolve_reactions(Table& table, Events* events);
/// `rons`: bit per claimant of pub.claimed.
void end_by_ron(Table& table, unsigned rons, Events* events);
void end_by_tsumo(Table& table, Events* events);
void end_by_exhaustion(Table& table, Events* events);
void end_by_abort(Table& table, DrawReason reason, Events* events);

/// The face of a physical tile: the lowest copies of a five are red, as many as the rules say.
inline Tile tile_of(const Rules& rules, TileId id) {
  const auto kind = static_cast<Kind>(id / 4);
  return is_five(kind) && id % 4 < rules.red_fives[kind / 9U] ? red_five(kind / 9) : kind;
}

}  // namespace ingot::mahjong
