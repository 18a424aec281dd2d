#pragma once

#include "ingot/mahjong/table.h"

namespace ingot::mahjong {

/// What points are worth to one player: the change of the mean place it can expect at the end of the game, in
/// places (one better is +1). Scores drift apart as a random walk over the rounds that are left, so that
/// early it is close to linear, and in the last round steep where a place is at stake.
class PlaceUtility {
 public:
  explicit PlaceUtility(const Observation& observation);

  /// Winning `points` (without honba and riichi sticks, which are added): by ron, from whom is not known; by
  /// tsumo.
  double ron(double points) const;
  double tsumo(double points) const;
  /// Paying `points` and honba to `winner` for a discard.
  double deal_in(int winner, double points) const;
  /// The round ends with this change of scores, counted from this player to its left; the dealership passes.
  double change(const std::array<double, 4>& change) const { return after(change, next_deviation_); }

 private:
  double after(const std::array<double, 4>& change, double deviation) const;
  std::array<double, 4> score_{};  // from this player to its left; ties already broken
  double next_deviation_ = 0, own_win_deviation_ = 0;
  double now_ = 0, own_win_now_ = 0;
  double honba_ = 0, sticks_ = 0;
  int dealer_ = 0;  // counted from this player
};

}  // namespace ingot::mahjong
