#include <algorithm>

#include "ingot/mahjong/hand_outlook.h"
#include "ingot/mahjong/legal.h"
#include "ingot/mahjong/player.h"
#include "ingot/mahjong/seat_view.h"
#include "ingot/mahjong/shanten.h"

namespace ingot::mahjong {
namespace {

// Chosen by duels with SimplePlayer over the same walls, as HandOutlook's.
constexpr double kBackWeight = 0.3;  // of a hand that a discard leaves farther from tenpai
constexpr double kCallMargin = 1.1;  // a call shows the hand and gives up riichi: it must be this much better
constexpr double kCallThreshold = 0.004;  // and this much, in places
constexpr double kTie = 2e-5;

// One decision: everything that is read off the observation once.
class Judge {
 public:
  explicit Judge(const Observation& o)
      : o_(o), utility_(o), threats_(read_threats(o)), outlook_(o, utility_, threats_) {}

  // The best discard among those that are legal (or allowed by `allowed`), with what it is worth.
  struct Choice {
    const Action* action = nullptr;
    double worth = -1e9;
  };
  Choice best_discard(const ActionList& legal) const;
  Choice best_riichi_discard(const ActionList& legal) const;
  double after_call(const Action& call) const;
  double after_pass() const;
  double after_kan(const Action& kan) const;

 private:
  double worth_of_discard(const Hand& rest, std::span<const Meld> melds, Kind kind, bool nearest) const {
    const double attack = outlook_.attack(rest, melds, bit(kind)) * (nearest ? 1 : kBackWeight),
                 fold = outlook_.fold(rest);
    const double go_on = std::max(attack, fold) + 0.02 * attack;
    return outlook_.deal_in_cost(kind) + (1 - outlook_.deal_in(kind)) * go_on;
  }
  // Between discards that leave the same hand: keep what may yet be useful.
  double kept(Tile tile) const {
    const Kind kind = kind_of(tile);
    double value = is_red(tile) ? 6 : 0;
    if ((dora_kinds(o_) >> kind & 1) != 0) value += 8;
    if (kind >= 27) return value + (is_yakuhai(o_, kind) ? 1.0 : 0.2);
    return value + std::min(number_of(kind), 8 - number_of(kind)) * 0.3 + 0.5;
  }

  const Observation& o_;
  PlaceUtility utility_;
  std::array<Threat, 3> threats_;
  HandOutlook outlook_;
};

Judge::Choice Judge::best_discard(const ActionList& legal) const {
  Choice best;
  const std::span<const Meld> melds = own_seat(o_).meld_span();
  std::array<double, kKinds> known{};
  KindSet done = 0;
  const KindSet near = best_discards(o_.own.hand, static_cast<int>(melds.size())).kinds;
  for (const Action& action : legal) {
    if (action.type != ActionType::Discard) continue;
    const Kind kind = kind_of(action.tile);
    if ((done >> kind & 1) == 0) {
      Hand rest = o_.own.hand;
      rest.remove_kind(kind);
      known[kind] = worth_of_discard(rest, melds, kind, (near >> kind & 1) != 0);
      done |= bit(kind);
    }
    const double worth = known[kind] - kTie * kept(action.tile) + (action.tsumogiri() ? 1e-7 : 0.0);
    if (worth > best.worth) best = {&action, worth};
  }
  return best;
}

Judge::Choice Judge::best_riichi_discard(const ActionList& legal) const {
  Choice best;
  const Seat& seat = own_seat(o_);
  const KindSet near = best_discards(o_.own.hand, seat.meld_count).kinds;
  for (const Action& action : legal) {
    if (action.type != ActionType::Discard) continue;
    const Kind kind = kind_of(action.tile);
    if ((near >> kind & 1) == 0) continue;
    Hand rest = o_.own.hand;
    rest.remove_kind(kind);
    const double waiting = outlook_.waiting(rest, seat.meld_span(), Declaration::Riichi, bit(kind));
    const double worth =
        outlook_.deal_in_cost(kind) + (1 - outlook_.deal_in(kind)) * waiting - kTie * kept(action.tile);
    if (worth > best.worth) best = {&action, worth};
  }
  return best;
}

double Judge::after_call(const Action& call) const {
  const Seat& seat = own_seat(o_);
  Hand rest = o_.own.hand;
  rest.remove(call.a);
  rest.remove(call.b);
  std::array<Meld, 4> melds = seat.melds;
  melds[seat.meld_count] = {call.type == ActionType::Pon ? MeldType::Pon : MeldType::Chi,
                            o_.pub.actor,
                            call.tile,
                            {call.a, call.b, kNoTile}};
  const std::span<const Meld> all(melds.data(), seat.meld_count + 1U);
  const KindSet barred = kuikae_kinds(o_.pub.rules, kind_of(call.tile), kind_of(call.a), kind_of(call.b));
  double best = -1e9;
  const KindSet near = best_discards(rest, static_cast<int>(all.size())).kinds;
  for_each_kind(rest.count.kinds() & ~barred, [&](Kind kind) {
    Hand left = rest;
    left.remove_kind(kind);
    best = std::max(best, worth_of_discard(left, all, kind, (near >> kind & 1) != 0));
  });
  return best;
}

double Judge::after_pass() const {
  const Hand& hand = o_.own.hand;
  const double attack = outlook_.attack(hand, own_seat(o_).meld_span()), fold = outlook_.fold(hand);
  return std::max(attack, fold) + 0.02 * attack;
}

double Judge::after_kan(const Action& kan) const {
  const Seat& seat = own_seat(o_);
  Hand rest = o_.own.hand;
  const Kind kind = kind_of(kan.tile);
  std::array<Meld, 4> melds = seat.melds;
  std::size_t count = seat.meld_count;
  if (kan.type == ActionType::Ankan) {
    for (int i = 0; i < 4; ++i) rest.remove_kind(kind);
    melds[count++] = {MeldType::Ankan, o_.seat, kind, {kind, kind, kind}};
  } else {
    rest.remove_kind(kind);
    for (std::size_t i = 0; i < count; ++i)
      if (melds[i].type == MeldType::Pon && melds[i].kind() == kind) {
        melds[i].type = MeldType::Kakan;
        melds[i].consumed[2] = kan.tile;
      }
  }
  return outlook_.attack(rest, {melds.data(), count});
}

}  // namespace

Action RuleBasedPlayer::select(const Observation& o, const ActionList& legal) {
  for (const ActionType type : {ActionType::Tsumo, ActionType::Ron})
    if (const Action* win = legal.find(type)) return *win;
  if (legal.size() == 1) return legal[0];
  return o.pub.phase == Phase::Turn ? on_turn(o, legal) : on_claim(o, legal);
}

Action RuleBasedPlayer::on_turn(const Observation& o, const ActionList& legal) const {
  const Seat& seat = own_seat(o);
  if (const Action* abort = legal.find(ActionType::NineOrphans))
    if (shanten_forms(o.own.hand, 0).thirteen_orphans > 3) return *abort;
  if (seat.riichi == RiichiState::Accepted) return legal[0];  // a concealed kan comes first
  const Judge judge(o);
  if (o.pub.declaring) {
    const Judge::Choice declared = judge.best_riichi_discard(legal);
    return declared.action != nullptr ? *declared.action : legal[0];
  }
  const Judge::Choice discard = judge.best_discard(legal);
  Action best = discard.action != nullptr ? *discard.action : legal[0];
  double worth = discard.worth;
  if (const Action* riichi = legal.find(ActionType::Riichi)) {
    const double declared = judge.best_riichi_discard(legal).worth;
    if (declared >= worth) {
      worth = declared;
      best = *riichi;
    }
  }
  for (const Action& action : legal) {
    if (action.type != ActionType::Ankan && action.type != ActionType::Kakan) continue;
    const double kan = judge.after_kan(action);
    if (kan > worth) {
      worth = kan;
      best = action;
    }
  }
  return best;
}

Action RuleBasedPlayer::on_claim(const Observation& o, const ActionList& legal) const {
  const Action* pass = legal.find(ActionType::Pass);
  const Judge judge(o);
  const double passed = judge.after_pass();
  double worth = passed + (kCallMargin - 1) * std::max(passed, 0.0) + kCallThreshold;
  Action best = *pass;
  for (const Action& action : legal) {
    // An open kan is left: it shows opponents a dora and keeps no tile that a pon would not.
    if (action.type != ActionType::Chi && action.type != ActionType::Pon) continue;
    const double called = judge.after_call(action) + 1e-5 * (is_red(action.a) + is_red(action.b));
    if (called > worth) {
      worth = called;
      best = action;
    }
  }
  return best;
}

}  // namespace ingot::mahjong
