#pragma once

#include <span>

namespace ingot::mahjong {

/// What games tell of a player's strength: normal, `mu` ± `sigma`, on OpenSkill's scale.
struct Rating {
  double mu = 25, sigma = 25.0 / 3;
  /// What the player is worth almost surely (mu - 3 sigma): what a ladder is ordered by.
  double ordinal() const { return mu - 3 * sigma; }
};

struct RatingModel {
  double beta = 25.0 / 6;   ///< how far one game's strength lies from `mu`
  double tau = 25.0 / 300;  ///< what each game adds to `sigma`: players change
  double kappa = 1e-4;      ///< share of its variance that a game leaves at least
};

/// One game's update of its players: the Plackett-Luce model of Weng and Lin (2011, "A Bayesian approximation
/// method for online ranking", algorithm 4), as the package openskill computes it. `ranks`: lower is better,
/// equal ones are ties. Throws InvalidConfig unless there are two players or more and a rank for each.
void rate_game(std::span<Rating> players, std::span<const double> ranks, const RatingModel& model = {});

}  // namespace ingot::mahjong
