#include "ingot/mahjong/rating.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/core.h>

#include "ingot/base/error.h"

namespace ingot::mahjong {
namespace {

// What the game says of player i: the gradient and the curvature of the log likelihood of the order at the
// means, in units of 1 / c.
struct Evidence {
  double slope = 0, curvature = 0;
};

Evidence evidence_of(std::size_t i, std::span<const double> strength, std::span<const double> ranks) {
  Evidence evidence;
  for (std::size_t q = 0; q < ranks.size(); ++q) {
    if (ranks[q] > ranks[i]) continue;  // i was placed before this choice
    double left = 0, tied = 0;          // those among whom q's place went, and those that share it
    for (std::size_t s = 0; s < ranks.size(); ++s) {
      left += ranks[s] >= ranks[q] ? strength[s] : 0;
      tied += ranks[s] == ranks[q] ? 1 : 0;
    }
    const double chance = strength[i] / left;
    evidence.slope += ((q == i ? 1 : 0) - chance) / tied;
    evidence.curvature += chance * (1 - chance) / tied;
  }
  return evidence;
}

}  // namespace

void rate_game(std::span<Rating> players, std::span<const double> ranks, const RatingModel& model) {
  INGOT_CHECK(
      players.size() == ranks.size() && players.size() > 1,
      InvalidConfig("ranks", fmt::format("are {} for {} players; expected one for each of two or more",
                                         ranks.size(), players.size())));
  double variance = 0;
  for (Rating& player : players) {
    player.sigma = std::hypot(player.sigma, model.tau);
    variance += player.sigma * player.sigma + model.beta * model.beta;
  }
  const double c = std::sqrt(variance);
  double highest = players[0].mu;  // the exponents are taken from it: ratings may be of any size
  for (const Rating& player : players) highest = std::max(highest, player.mu);
  std::vector<double> strength;
  strength.reserve(players.size());
  for (const Rating& player : players) strength.push_back(std::exp((player.mu - highest) / c));
  for (std::size_t i = 0; i < players.size(); ++i) {
    const Evidence evidence = evidence_of(i, strength, ranks);
    const double share = players[i].sigma / c;  // openskill's gamma: sure players move their sigma less
    players[i].mu += players[i].sigma * share * evidence.slope;
    players[i].sigma *= std::sqrt(std::max(1 - share * share * share * evidence.curvature, model.kappa));
  }
}

}  // namespace ingot::mahjong
