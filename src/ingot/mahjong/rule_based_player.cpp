#include <algorithm>

#include "ingot/mahjong/decision_outlook.h"
#include "ingot/mahjong/player.h"
#include "ingot/mahjong/seat_view.h"
#include "ingot/mahjong/shanten.h"

namespace ingot::mahjong {
namespace {

// Chosen by duels with SimplePlayer over the same walls, as HandOutlook's.
constexpr double kCallMargin = 1.1;  // a call shows the hand and gives up riichi: it must be this much better
constexpr double kCallThreshold = 0.004;  // and this much, in places
constexpr double kTie = 2e-5;

struct Choice {
  const Action* action = nullptr;
  double worth = -1e9;
};

// Between discards that leave the same hand: keep what may yet be useful.
double kept(const Observation& o, Tile tile) {
  const Kind kind = kind_of(tile);
  double value = is_red(tile) ? 6 : 0;
  if ((dora_kinds(o) >> kind & 1) != 0) value += 8;
  if (kind >= 27) return value + (is_yakuhai(o, kind) ? 1.0 : 0.2);
  return value + std::min(number_of(kind), 8 - number_of(kind)) * 0.3 + 0.5;
}

Choice best_discard(const Observation& o, const DecisionOutlook& outlook, const ActionList& legal) {
  Choice best;
  std::array<double, kKinds> known{};
  KindSet done = 0;
  for (const Action& action : legal) {
    if (action.type != ActionType::Discard) continue;
    const Kind kind = kind_of(action.tile);
    if ((done >> kind & 1) == 0) {
      known[kind] = outlook.discard(kind).worth();
      done |= bit(kind);
    }
    const double worth = known[kind] - kTie * kept(o, action.tile) + (action.tsumogiri() ? 1e-7 : 0.0);
    if (worth > best.worth) best = {&action, worth};
  }
  return best;
}

Choice best_riichi_discard(const Observation& o, const DecisionOutlook& outlook, const ActionList& legal) {
  Choice best;
  for (const Action& action : legal) {
    if (action.type != ActionType::Discard) continue;
    const Kind kind = kind_of(action.tile);
    if ((outlook.nearest() >> kind & 1) == 0) continue;
    const double worth = outlook.riichi(kind) - kTie * kept(o, action.tile);
    if (worth > best.worth) best = {&action, worth};
  }
  return best;
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
  const DecisionOutlook outlook(o);
  if (o.pub.declaring) {
    const Choice declared = best_riichi_discard(o, outlook, legal);
    return declared.action != nullptr ? *declared.action : legal[0];
  }
  const Choice discard = best_discard(o, outlook, legal);
  Action best = discard.action != nullptr ? *discard.action : legal[0];
  double worth = discard.worth;
  if (const Action* riichi = legal.find(ActionType::Riichi)) {
    const double declared = best_riichi_discard(o, outlook, legal).worth;
    if (declared >= worth) {
      worth = declared;
      best = *riichi;
    }
  }
  for (const Action& action : legal) {
    if (action.type != ActionType::Ankan && action.type != ActionType::Kakan) continue;
    const double kan = outlook.after_kan(action);
    if (kan > worth) {
      worth = kan;
      best = action;
    }
  }
  return best;
}

Action RuleBasedPlayer::on_claim(const Observation& o, const ActionList& legal) const {
  const Action* pass = legal.find(ActionType::Pass);
  const DecisionOutlook outlook(o);
  const double passed = outlook.pass().worth();
  double worth = passed + (kCallMargin - 1) * std::max(passed, 0.0) + kCallThreshold;
  Action best = *pass;
  for (const Action& action : legal) {
    // An open kan is left: it shows opponents a dora and keeps no tile that a pon would not.
    if (action.type != ActionType::Chi && action.type != ActionType::Pon) continue;
    const double called = outlook.after_call(action) + 1e-5 * (is_red(action.a) + is_red(action.b));
    if (called > worth) {
      worth = called;
      best = action;
    }
  }
  return best;
}

}  // namespace ingot::mahjong
