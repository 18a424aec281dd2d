#pragma once

#include "ingot/mahjong/hand_outlook.h"

namespace ingot::mahjong {

/// What each choice of one decision leads to, in places, as RuleBasedPlayer judges: what the hand may win
/// (HandOutlook), what the tile may cost (Threat), and what points are worth where the game stands
/// (PlaceUtility). Knows no more than the observation, which outlives it.
class DecisionOutlook {
 public:
  explicit DecisionOutlook(const Observation& observation);
  // Its parts refer to each other.
  DecisionOutlook(const DecisionOutlook&) = delete;
  DecisionOutlook& operator=(const DecisionOutlook&) = delete;

  /// Of a hand after a discard.
  struct Discard {
    double attack = 0;        ///< of going on; less where the discard leads away from tenpai
    double fold = 0;          ///< of giving up with the tiles that are left (at most 0)
    double deal_in = 0;       ///< the chance that the tile deals in
    double deal_in_cost = 0;  ///< that, times what it costs (at most 0)
    double worth() const;     ///< all of it together
  };
  /// Discarding `kind` from the own hand, which holds it, on the own turn. A red five counts as its dora
  /// still.
  Discard discard(Kind kind) const;
  /// The same with riichi declared: what it is worth. `kind` leaves the hand waiting.
  double riichi(Kind kind) const;
  /// The kinds whose discard leaves the own hand of 3n + 2 tiles nearest to tenpai; none of other hands.
  KindSet nearest() const { return nearest_; }

  /// A chi or pon, with the best discard after it.
  double after_call(const Action& call) const;
  /// A concealed or added kan: what going on is worth, before the tile that is drawn for it.
  double after_kan(const Action& kan) const;
  /// The own hand left as it is.
  Discard pass() const;

  double deal_in(Kind kind) const { return hand_.deal_in(kind); }
  double deal_in_cost(Kind kind) const { return hand_.deal_in_cost(kind); }

 private:
  Discard after(const Hand& rest, std::span<const Meld> melds, Kind kind, bool nearest) const;

  const Observation& o_;
  PlaceUtility utility_;
  std::array<Threat, 3> threats_;
  HandOutlook hand_;
  KindSet nearest_ = 0;
};

}  // namespace ingot::mahjong
