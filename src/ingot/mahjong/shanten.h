#pragma once

#include "ingot/mahjong/hand.h"

namespace ingot::mahjong {

/// How many tiles must be exchanged to be ready: 0 = tenpai, -1 = complete. A hand of 3n+1 or 3n+2 concealed
/// tiles, `melds` = 4 - n called groups (kans too). Seven pairs and thirteen orphans need melds = 0.
/// Five copies of one tile are never asked for: a wait on four tiles that the hand holds itself is none.
struct Shanten {
  int standard, seven_pairs, thirteen_orphans;
  int best() const {
    const int special = seven_pairs < thirteen_orphans ? seven_pairs : thirteen_orphans;
    return standard < special ? standard : special;
  }
};

inline constexpr int kNoShanten = 99;  ///< seven_pairs and thirteen_orphans of a hand with melds

/// The three numbers; throws InvalidHand unless hand.size is 13 - 3 * melds or one more.
Shanten shanten_forms(const Hand& hand, int melds);
/// The lowest of them. For hot code: the size is not checked.
int shanten(const Hand& hand, int melds);
bool is_complete(const Hand& hand, int melds);

/// The kinds that complete a hand of 13 - 3 * melds tiles. `unavailable`: kinds of which the player holds all
/// four in hand and melds together, and so can never draw.
KindSet waits(const Hand& hand, int melds, KindSet unavailable = 0);

/// Kinds that lower the shanten of a 3n+1 hand, and how many of them are still unseen.
struct Acceptance {
  KindSet kinds = 0;
  int tiles = 0;
};
/// `seen`: per kind, copies visible outside this hand (rivers, melds, indicators).
Acceptance acceptance(const Hand& hand, int melds, const KindCounts& seen);

/// The discards of a 3n+2 hand that leave it as near as it can be, and how near that is. Each other discard
/// leaves it one farther.
struct BestDiscards {
  int shanten = 0;  ///< after the discard: of a complete hand 0
  KindSet kinds = 0;
};
BestDiscards best_discards(const Hand& hand, int melds);

/// Builds the tables now (about 0.1 s) rather than on first use.
void prepare_shanten_tables();

}  // namespace ingot::mahjong
