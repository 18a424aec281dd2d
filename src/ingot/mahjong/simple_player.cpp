#include <algorithm>

#include "ingot/mahjong/player.h"
#include "ingot/mahjong/seat_view.h"
#include "ingot/mahjong/shanten.h"

namespace ingot::mahjong {
namespace {

bool threatened(const Observation& o) {
  for (int p = 1; p < 4; ++p)
    if (o.pub.seats[static_cast<std::size_t>((o.seat + p) % 4)].riichi != RiichiState::None) return true;
  return false;
}

// What an open hand can win with: yakuhai it has, or tanyao, or one suit with honours.
enum class Plan { None, Yakuhai, Tanyao, Flush };

Plan open_plan(const Observation& o, const Hand& hand, std::span<const Meld> melds) {
  KindSet melded = 0;
  for (const Meld& meld : melds) {
    if (meld.type != MeldType::Chi && is_yakuhai(o, meld.kind())) return Plan::Yakuhai;
    melded |= meld.type == MeldType::Chi ? KindSet{7} << meld.kind() : bit(meld.kind());
  }
  int yaochuu = 0;
  std::array<int, 4> suits{};
  for (Kind kind = 0; kind < kKinds; ++kind) {
    const int n = hand.count[kind];
    if (n >= 3 && is_yakuhai(o, kind)) return Plan::Yakuhai;
    if ((kYaochuu >> kind & 1) != 0) yaochuu += n;
    suits[static_cast<std::size_t>(suit_of(kind))] += n;
  }
  if ((melded & kYaochuu) == 0 && yaochuu <= 2 && o.pub.rules.open_tanyao) return Plan::Tanyao;
  for (std::size_t suit = 0; suit < 3; ++suit) {
    const bool melds_fit = (melded & ~(KindSet{0x1FF} << (9 * suit)) & ~kHonors) == 0;
    if (melds_fit && hand.size - suits[suit] - suits[3] <= 2) return Plan::Flush;
  }
  return Plan::None;
}

// Tiles that the plan cannot use count as not held, so shanten and acceptance are the plan's.
bool serves(Plan plan, Kind kind, int flush_suit) {
  if (plan == Plan::Tanyao) return (kYaochuu >> kind & 1) == 0;
  if (plan == Plan::Flush) return kind >= 27 || suit_of(kind) == flush_suit;
  return true;
}

int main_suit(const Hand& hand) {
  std::array<int, 3> suits{};
  for (std::size_t kind = 0; kind < 27; ++kind) suits[kind / 9] += hand.count[kind];
  return static_cast<int>(std::max_element(suits.begin(), suits.end()) - suits.begin());
}

double tile_value(const Observation& o, Tile tile) {
  const Kind kind = kind_of(tile);
  double value = is_red(tile) ? 6 : 0;
  if ((dora_kinds(o) >> kind & 1) != 0) value += 8;
  if (kind >= 27) return value + (is_yakuhai(o, kind) ? 1.0 : 0.2);
  return value + std::min(number_of(kind), 8 - number_of(kind)) * 0.3 + 0.5;
}

// How dangerous discarding `kind` looks against the players that declared riichi: 0 = safe for all.
double deal_in_danger(const Observation& o, Kind kind) {
  double danger = 0;
  const int visible = o.pub.seen[kind] + o.own.hand.count[kind];
  for (int p = 1; p < 4; ++p) {
    const Seat& seat = o.pub.seats[static_cast<std::size_t>((o.seat + p) % 4)];
    if (seat.riichi == RiichiState::None) continue;
    const KindSet safe = seat.river_kinds | seat.safe_after_riichi;
    if ((safe >> kind & 1) != 0) continue;
    if (kind >= 27) {
      danger += visible >= 4 ? 0.1 : visible == 3 ? 0.5 : visible == 2 ? 2.0 : 4.0;
      continue;
    }
    const int number = number_of(kind);
    int open_sides = 0;  // two-sided waits that are still possible
    if (number <= 5 && (safe >> (kind + 3) & 1) == 0 &&
        o.pub.seen[kind + 1U] + o.own.hand.count[kind + 1U] < 4 &&
        o.pub.seen[kind + 2U] + o.own.hand.count[kind + 2U] < 4)
      ++open_sides;
    if (number >= 3 && (safe >> (kind - 3) & 1) == 0 &&
        o.pub.seen[kind - 1U] + o.own.hand.count[kind - 1U] < 4 &&
        o.pub.seen[kind - 2U] + o.own.hand.count[kind - 2U] < 4)
      ++open_sides;
    danger += 1.5 + 4.5 * open_sides - 0.2 * visible + (number >= 3 && number <= 5 ? 0.5 : 0.0);
  }
  return danger;
}

}  // namespace

Action SimplePlayer::select(const Observation& o, const ActionList& legal) {
  for (const ActionType type : {ActionType::Tsumo, ActionType::Ron})
    if (const Action* win = legal.find(type)) return *win;
  return o.pub.phase == Phase::Turn ? on_turn(o, legal) : on_claim(o, legal);
}

Action SimplePlayer::on_turn(const Observation& o, const ActionList& legal) const {
  const int melds = own_seat(o).meld_count;
  if (const Action* abort = legal.find(ActionType::NineOrphans))
    if (shanten_forms(o.own.hand, 0).thirteen_orphans > 3) return *abort;
  if (const Action* riichi = legal.find(ActionType::Riichi)) return *riichi;
  for (const Action& action : legal) {
    if (action.type != ActionType::Ankan && action.type != ActionType::Kakan) continue;
    if (own_seat(o).riichi == RiichiState::Accepted) return action;
    if (threatened(o)) continue;
    Hand rest = o.own.hand;
    const bool ankan = action.type == ActionType::Ankan;
    for (int i = 0; i < (ankan ? 4 : 1); ++i) rest.remove_kind(kind_of(action.tile));
    if (shanten(rest, ankan ? melds + 1 : melds) <= shanten(o.own.hand, melds)) return action;
  }
  return best_discard(o, legal);
}

Action SimplePlayer::best_discard(const Observation& o, const ActionList& legal) const {
  const Seat& seat = own_seat(o);
  const int melds = seat.meld_count;
  const bool declaring = o.pub.declaring;
  const Plan plan = seat.open ? open_plan(o, o.own.hand, seat.meld_span()) : Plan::Yakuhai;
  const int suit = main_suit(o.own.hand);
  const int distance = shanten(o.own.hand, melds);
  const bool fold = options_.defends && threatened(o) && !declaring &&
                    (distance >= options_.fold_shanten || (distance >= 1 && seat.open && plan == Plan::None));
  const Action* best = nullptr;
  double best_worth = -1e9;
  for (const Action& action : legal) {
    if (action.type != ActionType::Discard) continue;
    const Kind kind = kind_of(action.tile);
    double worth = action.tsumogiri() ? 0.01 : 0.0;
    const double danger = options_.defends ? deal_in_danger(o, kind) : 0.0;
    Hand rest = o.own.hand;
    rest.remove_kind(kind);
    for (Kind k = 0; k < kKinds && plan != Plan::Yakuhai && plan != Plan::None; ++k)
      while (!serves(plan, k, suit) && rest.count[k] > 0) rest.remove_kind(k);
    const Acceptance accepted = acceptance(rest, melds, o.pub.seen);
    worth -= 200.0 * shanten(rest, melds);
    worth += accepted.tiles - tile_value(o, action.tile);
    worth -= fold ? 1000.0 * danger : 1.5 * danger;
    if (worth > best_worth) {
      best_worth = worth;
      best = &action;
    }
  }
  return best != nullptr ? *best : legal[0];
}

Action SimplePlayer::on_claim(const Observation& o, const ActionList& legal) const {
  const Action* pass = legal.find(ActionType::Pass);
  if (!options_.calls || (options_.defends && threatened(o))) return *pass;
  const Seat& seat = own_seat(o);
  const int now = shanten(o.own.hand, seat.meld_count);
  const Action* best = pass;
  double best_worth = 0;
  for (const Action& action : legal) {
    if (action.type != ActionType::Chi && action.type != ActionType::Pon) continue;
    Hand rest = o.own.hand;
    rest.remove(action.a);
    rest.remove(action.b);
    std::array<Meld, 5> melds;
    std::copy_n(seat.melds.begin(), seat.meld_count, melds.begin());
    melds[seat.meld_count] = {action.type == ActionType::Pon ? MeldType::Pon : MeldType::Chi,
                              o.pub.actor,
                              action.tile,
                              {action.a, action.b, kNoTile}};
    const std::span<const Meld> all(melds.data(), seat.meld_count + 1U);
    const Plan plan = open_plan(o, rest, all);
    if (plan == Plan::None) continue;
    const int suit = main_suit(rest);
    Hand useful = rest;
    for (Kind k = 0; k < kKinds && plan != Plan::Yakuhai; ++k)
      while (!serves(plan, k, suit) && useful.count[k] > 0) useful.remove_kind(k);
    const int after = shanten(useful, seat.meld_count + 1);
    if (after >= now || (plan != Plan::Yakuhai && now > 3)) continue;
    const double worth = 10.0 * (now - after) + is_red(action.a) + is_red(action.b);
    if (worth > best_worth) {
      best_worth = worth;
      best = &action;
    }
  }
  return *best;
}

}  // namespace ingot::mahjong
