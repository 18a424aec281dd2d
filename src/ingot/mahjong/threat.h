#pragma once

#include "ingot/mahjong/table.h"

namespace ingot::mahjong {

/// What an opponent may be waiting for, judged by what a player sees.
struct Threat {
  double tenpai = 0;                   ///< probability that it is tenpai
  double points = 0;                   ///< what it is expected to take from a discarder, without honba
  std::array<double, kKinds> waits{};  ///< probability that it wins on each kind, given that it is tenpai
};

/// The three opponents, next player first. Every two-sided, closed, edge, pair and single wait that the
/// unseen tiles allow is weighted by the number of ways to hold it; those of furiten fall away. So safe
/// tiles, suji, walls and one-chance follow rather than being rules of their own. Riichi is tenpai for
/// certain; open hands by their melds and the turn. Melds of one suit make that suit likelier.
std::array<Threat, 3> read_threats(const Observation& observation);

}  // namespace ingot::mahjong
