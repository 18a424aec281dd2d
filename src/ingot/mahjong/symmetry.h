#pragma once

#include <span>

#include "ingot/mahjong/table.h"

namespace ingot::mahjong {

/// A renaming of the suits m, p, s. A position and its six images have the same legal actions and the same
/// values, with one exception, ryuuiisou: see keeps_score.
struct SuitPermutation {
  std::array<std::uint8_t, 3> to = {0, 1, 2};  ///< suit i becomes to[i]

  /// 0 is the identity: [0 1 2] [0 2 1] [1 0 2] [1 2 0] [2 0 1] [2 1 0].
  static SuitPermutation number(int index);
  SuitPermutation inverse() const;

  Kind kind(Kind kind) const { return kind < 27 ? static_cast<Kind>(9 * to[kind / 9U] + kind % 9) : kind; }
  Tile tile(Tile tile) const {
    return is_red(tile) ? red_five(to[tile - 34U]) : tile < 34 ? this->kind(tile) : tile;
  }
  KindSet kinds(KindSet set) const;
  Action action(const Action& action) const;
  /// Of the 46: the discards move, the others stay.
  int policy_index(int index) const { return index < kTiles ? tile(static_cast<Tile>(index)) : index; }
  Hand hand(const Hand& hand) const;
  Observation observation(const Observation& observation) const;
  /// A whole game: the permuted actions played on it give the permuted game, until its next round is dealt.
  Table table(const Table& table) const;
  /// An encoding of any number of channels: columns move, and the rows of the red fives (40-42).
  void encoding(std::span<const float> in, std::span<float> out) const;

  /// Whether a win of these kinds (hand and melds) is worth the same after renaming. Only all-green hands are
  /// not, where bamboo changes its name: they lose ryuuiisou, and others may become it.
  bool keeps_score(KindSet kinds_of_win) const;
};

}  // namespace ingot::mahjong
