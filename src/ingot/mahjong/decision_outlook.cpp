#include "ingot/mahjong/decision_outlook.h"

#include <algorithm>

#include "ingot/mahjong/legal.h"
#include "ingot/mahjong/seat_view.h"
#include "ingot/mahjong/shanten.h"

namespace ingot::mahjong {
namespace {

// Chosen by duels with SimplePlayer over the same walls, as HandOutlook's.
constexpr double kBackWeight = 0.3;    // of a hand that a discard leaves farther from tenpai
constexpr double kStillAttack = 0.02;  // a hand that folds may yet go on

}  // namespace

double DecisionOutlook::Discard::worth() const {
  return deal_in_cost + (1 - deal_in) * (std::max(attack, fold) + kStillAttack * attack);
}

DecisionOutlook::DecisionOutlook(const Observation& o)
    : o_(o), utility_(o), threats_(read_threats(o)), hand_(o, utility_, threats_) {
  if (o.own.hand.size % 3 == 2) nearest_ = best_discards(o.own.hand, own_seat(o).meld_count).kinds;
}

DecisionOutlook::Discard DecisionOutlook::after(const Hand& rest, std::span<const Meld> melds, Kind kind,
                                                bool nearest) const {
  return {.attack = hand_.attack(rest, melds, bit(kind)) * (nearest ? 1 : kBackWeight),
          .fold = hand_.fold(rest),
          .deal_in = hand_.deal_in(kind),
          .deal_in_cost = hand_.deal_in_cost(kind)};
}

DecisionOutlook::Discard DecisionOutlook::discard(Kind kind) const {
  Hand rest = o_.own.hand;
  rest.remove_kind(kind);
  return after(rest, own_seat(o_).meld_span(), kind, (nearest_ >> kind & 1) != 0);
}

double DecisionOutlook::riichi(Kind kind) const {
  Hand rest = o_.own.hand;
  rest.remove_kind(kind);
  const double waiting = hand_.waiting(rest, own_seat(o_).meld_span(), Declaration::Riichi, bit(kind));
  return hand_.deal_in_cost(kind) + (1 - hand_.deal_in(kind)) * waiting;
}

double DecisionOutlook::after_call(const Action& call) const {
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
    best = std::max(best, after(left, all, kind, (near >> kind & 1) != 0).worth());
  });
  return best;
}

DecisionOutlook::Discard DecisionOutlook::pass() const {
  const Hand& hand = o_.own.hand;
  return {.attack = hand_.attack(hand, own_seat(o_).meld_span()), .fold = hand_.fold(hand)};
}

double DecisionOutlook::after_kan(const Action& kan) const {
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
  return hand_.attack(rest, {melds.data(), count});
}

}  // namespace ingot::mahjong
