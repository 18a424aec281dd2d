#pragma once

#include "ingot/mahjong/table.h"

// Shared by legal.cpp, table.cpp and settle.cpp.
namespace ingot::mahjong {

/// Kinds of which the melds and the hand hold all four.
KindSet exhausted_kinds(const Seat& seat, const Hand& hand);
/// Actions on one's own turn.
void turn_actions(const PublicState& pub, const PrivateState& own, int player, ActionList& list);
/// Whether a player's tiles allow any claim of pub.claimed at all: the quick test before the exact one.
inline bool may_react(const PublicState& pub, const PrivateState& own, int player) {
  const Kind kind = kind_of(pub.claimed);
  if ((own.waits >> kind & 1) != 0) return true;
  if (pub.claim_of != ActionType::Discard || pub.live_left == 0) return false;
  const auto& count = own.hand.count;
  bool possible = count[kind] >= 2;
  if (player == (pub.actor + 1) % 4 && kind < 27) {
    const int number = number_of(kind);
    const bool below2 = number > 1 && count[kind - 2U] != 0, below = number > 0 && count[kind - 1U] != 0;
    const bool above2 = number < 7 && count[kind + 2U] != 0, above = number < 8 && count[kind + 1U] != 0;
    possible |= (below2 & below) | (below & above) | (above & above2);
  }
  return possible && pub.seats[static_cast<std::size_t>(player)].riichi == RiichiState::None;
}
/// Ron, calls and pass on pub.claimed; stays empty if there is nothing to decide.
void reaction_actions(const PublicState& pub, const PrivateState& own, int player, ActionList& list);
/// No call is possible because the round ends with this discard if nobody wins on it.
bool aborts_after_discard(const PublicState& pub);
/// Kinds that may not be discarded after calling `called` with a and b.
KindSet kuikae_kinds(const Rules& rules, Kind called, Kind a, Kind b);
/// The situation of a win, as the scorer wants it. `hand` includes the winning tile.
WinQuery win_query(const PublicState& pub, const Hand& hand, int player, Tile tile, bool tsumo);

}  // namespace ingot::mahjong
