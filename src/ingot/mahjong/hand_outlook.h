#pragma once

#include "ingot/mahjong/place_utility.h"
#include "ingot/mahjong/score.h"
#include "ingot/mahjong/threat.h"

namespace ingot::mahjong {

/// How a waiting hand does in one turn of the table.
struct Ready {
  double win = 0;   ///< probability that it wins
  double gain = 0;  ///< that, times what the win is worth in places
};

enum class Declaration : std::uint8_t { Riichi, Silent };

/// What it is worth, in places, to go on with a hand: the chances of each turn to come nearer, to win and to
/// deal in, as a chain over the draws that are left. Waiting hands are scored exactly, hands one away by all
/// their draws and discards, those farther by how wide they accept now and next and by an estimate of han.
class HandOutlook {
 public:
  HandOutlook(const Observation& observation, const PlaceUtility& utility,
              const std::array<Threat, 3>& threats);

  /// Of a hand of 3n + 1 tiles. `discarded`: kinds that go to the own river first (furiten).
  double attack(const Hand& hand, std::span<const Meld> melds, KindSet discarded = 0) const;
  /// Of a waiting hand that declares riichi, or does not.
  double waiting(const Hand& hand, std::span<const Meld> melds, Declaration how, KindSet discarded) const;

  /// The chance that discarding `kind` deals in, and that times what it costs, in places (negative).
  double deal_in(Kind kind) const { return deal_in_[kind]; }
  double deal_in_cost(Kind kind) const { return deal_in_cost_[kind]; }
  /// Of giving the hand up, with the tiles that are left in it; in places, negative.
  double fold(const Hand& hand) const;

 private:
  struct Plan;
  Ready ready(const Hand& hand, std::span<const Meld> melds, Declaration how, KindSet discarded) const;
  double worth(const WinScore& score, bool tsumo, bool riichi) const;
  double one_away(const Hand& hand, std::span<const Meld> melds, KindSet discarded) const;
  double farther(const Hand& hand, std::span<const Meld> melds, const Plan& plan) const;
  // The chance of the step after the next, with the best discard after each tile that brings the hand nearer.
  double next_hazard(const Hand& hand, int groups, KindSet kinds, bool calls) const;
  double all_triplets(const Hand& hand, std::span<const Meld> melds) const;
  double planned(const Hand& hand, std::span<const Meld> melds) const;
  double chain(std::span<const double> hazards, const Ready& last, bool locked) const;
  double hazard(const Hand& hand, KindSet kinds, bool calls) const;
  Ready expected_ready(double tiles, double han, bool open) const;
  double release(Kind kind, bool riichi) const;
  double gain_of_ron(double points) const { return gain(ron_gain_, points, false); }
  double gain_of_tsumo(double points) const { return gain(tsumo_gain_, points, true); }

  static constexpr std::size_t kGains = 481;  // by hundreds of points
  using Gains = std::array<double, kGains>;
  double gain(Gains& gains, double points, bool tsumo) const;

  const Observation& o_;
  const PlaceUtility& utility_;
  std::array<int, kKinds> unseen_{};
  std::array<double, kKinds> deal_in_{}, deal_in_cost_{};
  double unseen_total_ = 0, end_ = 0, pressure_ = 0, push_danger_ = 0, push_cost_ = 0, tenpai_draw_ = 0,
         floor_ = 0;
  double riichi_stick_ = 0;
  int turns_ = 0;
  bool dealer_ = false;
  KindSet dora_ = 0;
  mutable Gains ron_gain_, tsumo_gain_;
};

}  // namespace ingot::mahjong
