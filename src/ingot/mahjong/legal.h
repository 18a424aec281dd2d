#pragma once

#include "ingot/mahjong/table.h"

// Shared by legal.cpp, table.cpp and settle.cpp.
namespace ingot::mahjong {

/// Kinds of which the melds and the hand hold all four.
KindSet exhausted_kinds(const Seat& seat, const Hand& hand);
/// Actions on one's own turn.
void turn_actions(const PublicState& pub, const PrivateState& own, int player, ActionList& list);
/// Players whose tiles allow any claim of pub.claimed at all: the quick test before the exact one.
unsigned possible_claimants(const PublicState& pub, const std::array<PrivateState, 4>& own);
/// Ron, calls and pass on pub.claimed; stays empty if there is nothing to decide.
void reaction_actions(const PublicState& pub, const PrivateState& own, int player, ActionList& list);
/// No call is possible because the round ends with this discard if nobody wins on it.
bool aborts_after_discard(const PublicState& pub);
/// Kinds that may not be discarded after calling `called` with a and b.
KindSet kuikae_kinds(const Rules& rules, Kind called, Kind a, Kind b);
/// The situation of a win, as the scorer wants it. `hand` includes the winning tile.
WinQuery win_query(const PublicState& pub, const Hand& hand, int player, Tile tile, bool tsumo);

}  // namespace ingot::mahjong
