#include "ingot/mahjong/hand_outlook.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "ingot/mahjong/legal.h"
#include "ingot/mahjong/seat_view.h"
#include "ingot/mahjong/shanten.h"

namespace ingot::mahjong {

namespace {

constexpr int kMaxTurns = 19;
constexpr double kMostHazard = 0.9;
constexpr double kUra = 0.35;  // chance of another han by ura dora or ippatsu

// The rest was chosen by duels with SimplePlayer over the same walls.
constexpr double kRiichiHan = 1.5;      // riichi, tsumo, ippatsu and ura dora of a hand that is not ready yet
constexpr double kCostWeight = 0.7;     // of deal-ins: below 1, because who folds pays for others' tsumo, too
constexpr double kPushWeight = 0.4;     // of a tile drawn later: there is mostly a safer one, or time to fold
constexpr double kFarPushWeight = 0.6;  // the same once more where the hand is not ready
constexpr double kRonsOfRiichi = 0.22, kRonsOfSilent = 0.42;  // release of a wait that is not known yet
constexpr double kFarWeight = 0.8;                    // of what is hoped for, for each step beyond the first
constexpr double kNextHazard = 0.6;                   // a step's chance beside that of the step before
constexpr double kPonWeight = 0.8, kChiWeight = 0.9;  // others may want the tile, too

// Chances that an opponent who gets a tile of the wait discards it, by how near the edge it is.
struct Release {
  double honor, terminal, second, third, middle;
};
double release_of(const Release& r, Kind kind) {
  if (kind >= 27) return r.honor;
  switch (std::min(number_of(kind), 8 - number_of(kind))) {
    case 0:
      return r.terminal;
    case 1:
      return r.second;
    case 2:
      return r.third;
    default:
      return r.middle;
  }
}

double total_of_tsumo(const Payment& pay, bool dealer) {
  return dealer ? 3.0 * pay.from_non_dealer : 2.0 * pay.from_non_dealer + pay.from_dealer;
}

int dora_held(const Hand& hand, std::span<const Meld> melds, KindSet dora, KindSet useful) {
  int held = 0;
  for_each_kind(dora & useful, [&](Kind kind) { held += hand.count[kind]; });
  for (std::size_t suit = 0; suit < 3; ++suit)
    if ((useful >> kind_of(red_five(static_cast<int>(suit))) & 1) != 0) held += hand.red[suit];
  for (const Meld& meld : melds) {
    const auto add = [&](Tile t) {
      if (t != kNoTile) held += static_cast<int>(is_red(t)) + static_cast<int>(dora >> kind_of(t) & 1);
    };
    add(meld.called);
    for (const Tile t : meld.consumed) add(t);
  }
  return held;
}

bool any_open(std::span<const Meld> melds) { return std::ranges::any_of(melds, &Meld::is_open); }

bool makes_run(const Hand& hand, Kind kind) {
  if (kind >= 27) return false;
  const int n = number_of(kind);
  const auto has = [&](int step) { return hand.count[static_cast<std::size_t>(kind + step)] > 0; };
  return (n >= 2 && has(-1) && has(-2)) || (n >= 1 && n <= 7 && has(-1) && has(1)) ||
         (n <= 6 && has(1) && has(2));
}

Hand only(const Hand& hand, KindSet kinds) {
  Hand kept = hand;
  for_each_kind(hand.count.kinds() & ~kinds, [&](Kind kind) {
    while (kept.count[kind] > 0) kept.remove_kind(kind);
  });
  return kept;
}

// Han of yaku that a hand may yet get, closed and with riichi.
double expected_han(const Observation& o, const Hand& hand, std::span<const Meld> melds,
                    const std::array<int, kKinds>& unseen) {
  const bool open = any_open(melds);
  double han = open ? 0 : kRiichiHan;  // riichi; tsumo, ippatsu and ura dora
  int yaochuu = 0, triplets = 0;
  bool yakuhai_pair = false;
  std::array<int, 4> suits{};
  for_each_kind(hand.count.kinds(), [&](Kind kind) {
    const int n = hand.count[kind];
    suits[static_cast<std::size_t>(suit_of(kind))] += n;
    if ((kYaochuu >> kind & 1) != 0) yaochuu += n;
    triplets += n >= 3 ? 1 : 0;
    if (!is_yakuhai(o, kind)) return;
    if (n >= 3) han += 1;
    if (n == 2) {
      yakuhai_pair = true;
      han += 0.25 * unseen[kind];
    }
  });
  int tiles = hand.size;
  for (const Meld& meld : melds) {
    const Kind kind = meld.kind();
    suits[static_cast<std::size_t>(suit_of(kind))] += 3;
    tiles += 3;
    if (meld.type == MeldType::Chi) {
      if (number_of(kind) == 0 || number_of(kind) == 6) yaochuu += 3;
    } else {
      if ((kYaochuu >> kind & 1) != 0) yaochuu += 3;
      if (is_yakuhai(o, kind)) han += 1;
    }
  }
  static constexpr std::array<double, 4> kTanyao = {0.7, 0.35, 0.12, 0.03};
  if (yaochuu < 4) han += kTanyao[static_cast<std::size_t>(yaochuu)];
  if (!open && melds.empty() && triplets == 0 && !yakuhai_pair) han += 0.35;
  const int off = tiles - suits[3] - *std::max_element(suits.begin(), suits.begin() + 3);
  static constexpr std::array<double, 5> kFlush = {1, 0.7, 0.35, 0.15, 0.05};
  if (off < 5) han += kFlush[static_cast<std::size_t>(off)] * (open ? 2 : 3);
  const auto has = [&](std::size_t kind) { return hand.count[kind] > 0 ? 1 : 0; };
  static constexpr std::array<double, 10> kNine = {0, 0, 0, 0, 0, 0, 0, 0.1, 0.35, 0.8};
  double best_nine = 0;
  for (std::size_t n = 0; n < 7; ++n) {
    std::size_t held = 0;
    for (std::size_t i = 0; i < 9; ++i) held += static_cast<std::size_t>(has(i % 3 * 9 + n + i / 3));
    best_nine = std::max(best_nine, kNine[held]);
  }
  for (std::size_t suit = 0; suit < 3; ++suit) {
    std::size_t held = 0;
    for (std::size_t i = 0; i < 9; ++i) held += static_cast<std::size_t>(has(suit * 9 + i));
    best_nine = std::max(best_nine, kNine[held]);
  }
  return han + best_nine * (open ? 1 : 2);
}

}  // namespace

double points_of_han(double han, bool dealer, bool open) {
  static constexpr std::array<double, 14> kClosedPoints = {700,   1400,  2700,  5400,  7800,  8000,  12000,
                                                           12000, 16000, 16000, 16000, 24000, 24000, 32000};
  static constexpr std::array<double, 14> kOpenPoints = {500,   1000,  2000,  3900,  7700,  8000,  12000,
                                                         12000, 16000, 16000, 16000, 24000, 24000, 32000};
  const auto& table = open ? kOpenPoints : kClosedPoints;
  const double at = std::clamp(han, 0.0, 12.999);
  const auto low = static_cast<std::size_t>(at);
  const double between = at - static_cast<double>(low);
  return (table[low] * (1 - between) + table[low + 1] * between) * (dealer ? 1.5 : 1.0);
}

// What an open hand means to win with.
struct HandOutlook::Plan {
  KindSet kinds = kAllKinds;  // the tiles it can use
  double han = 0;             // in place of an estimate, without dora; 0: estimate
  Kind pair = kNoTile;        // a pair of yakuhai that must become a triplet
  bool calls = true;
};

HandOutlook::HandOutlook(const Observation& o, const PlaceUtility& utility,
                         const std::array<Threat, 3>& threats)
    : o_(o), utility_(utility), dealer_(o.pub.dealer == o.seat), dora_(dora_kinds(o)) {
  for (Kind kind = 0; kind < kKinds; ++kind) {
    unseen_[kind] = 4 - o.pub.seen[kind] - o.own.hand.count[kind];
    unseen_total_ += unseen_[kind];
  }
  unseen_total_ = std::max(unseen_total_, 1.0);
  turns_ = std::min(kMaxTurns - 1, (o.pub.live_left + 2) / 4);
  for (std::size_t i = 0; i < 3; ++i) {
    const Threat& threat = threats[i];
    pressure_ += threat.tenpai;
    if (threat.tenpai == 0) continue;
    const double cost = utility.deal_in(static_cast<int>(i) + 1, threat.points);
    for (Kind kind = 0; kind < kKinds; ++kind) {
      const double chance = threat.tenpai * threat.waits[kind];
      const double more = (dora_ >> kind & 1) != 0 ? 1.5 : 1.0;
      deal_in_[kind] += chance;
      deal_in_cost_[kind] += chance * cost * more;
    }
  }
  for (double& cost : deal_in_cost_) cost *= kCostWeight;
  for (Kind kind = 0; kind < kKinds; ++kind) {
    push_danger_ += deal_in_[kind] * unseen_[kind] / unseen_total_;
    push_cost_ += deal_in_cost_[kind] * unseen_[kind] / unseen_total_;
  }
  push_danger_ *= kPushWeight;
  push_cost_ *= kPushWeight;
  end_ = std::min(0.3, 0.015 + 0.005 * (18 - turns_) + 0.06 * pressure_);
  tenpai_draw_ = utility.change({1500, -500, -500, -500}) * 0.8;
  riichi_stick_ = utility.change({-1000, 0, 0, 0});
  floor_ = fold(o.own.hand);
  ron_gain_.fill(std::numeric_limits<double>::quiet_NaN());
  tsumo_gain_.fill(std::numeric_limits<double>::quiet_NaN());
}

double HandOutlook::gain(Gains& gains, double points, bool tsumo) const {
  const auto at = static_cast<std::size_t>(std::clamp(std::lround(points / 100), 0L, 480L));
  double& known = gains[at];
  if (std::isnan(known)) {
    const double exact = 100.0 * static_cast<double>(at);
    known = tsumo ? utility_.tsumo(exact) : utility_.ron(exact);
  }
  return known;
}

double HandOutlook::release(Kind kind, bool riichi) const {
  static constexpr Release kAfterRiichi = {0.72, 0.64, 0.48, 0.35, 0.29},
                           kSilent = {0.49, 0.42, 0.35, 0.28, 0.245};
  return release_of(riichi ? kAfterRiichi : kSilent, kind);
}

double HandOutlook::fold(const Hand& hand) const {
  if (pressure_ == 0) return 0;
  std::array<double, 14> costs{};
  std::size_t n = 0;
  for_each_kind(hand.count.kinds(), [&](Kind kind) {
    for (int i = 0; i < hand.count[kind] && n < costs.size(); ++i) costs[n++] = deal_in_cost_[kind];
  });
  const auto wanted = std::min<std::size_t>(n, static_cast<std::size_t>(std::min(turns_, 6)));
  std::partial_sort(costs.begin(), costs.begin() + static_cast<std::ptrdiff_t>(wanted),
                    costs.begin() + static_cast<std::ptrdiff_t>(n), std::greater<>());
  double sum = 0, goes_on = 1;
  for (std::size_t i = 0; i < wanted; ++i) {
    sum += goes_on * costs[i];
    goes_on *= 0.8;  // new safe tiles come, rounds end
  }
  return sum;
}

double HandOutlook::hazard(const Hand& hand, KindSet kinds, bool calls) const {
  double ways = 0;
  for_each_kind(kinds, [&](Kind kind) {
    double sources = 1;
    if (calls) {
      if (hand.count[kind] >= 2) sources += 3 * release(kind, false) * kPonWeight;
      if (makes_run(hand, kind)) sources += release(kind, false) * kChiWeight;
    }
    ways += unseen_[kind] * sources;
  });
  return std::min(kMostHazard, ways / unseen_total_);
}

// From the last step to the first: what the hand is worth with so many draws left.
double HandOutlook::chain(std::span<const double> hazards, const Ready& last, bool locked) const {
  std::array<double, kMaxTurns> value{};
  const double ends = end_ + push_danger_;
  const auto folded = [&](std::size_t t) { return floor_ * static_cast<double>(t) / std::max(1, turns_); };
  value[0] = tenpai_draw_;
  for (std::size_t t = 1; t <= static_cast<std::size_t>(turns_); ++t) {
    const double on = last.gain + push_cost_ + std::max(0.0, 1 - last.win - ends) * value[t - 1];
    value[t] = locked ? on : std::max(on, folded(t));
  }
  for (auto h = hazards.rbegin(); h != hazards.rend(); ++h) {
    std::array<double, kMaxTurns> next{};
    const double goes_on = 1 - end_ - kFarPushWeight * push_danger_;
    for (std::size_t t = 1; t <= static_cast<std::size_t>(turns_); ++t)
      next[t] = std::max(
          folded(t), goes_on * (*h * value[t - 1] + (1 - *h) * next[t - 1]) + kFarPushWeight * push_cost_);
    value = next;
  }
  return value[static_cast<std::size_t>(turns_)];
}

double HandOutlook::worth(const WinScore& score, bool tsumo, bool riichi) const {
  const auto of_base = [&](std::int32_t base) {
    const Payment pay = payment_for(base, dealer_);
    return tsumo ? gain_of_tsumo(total_of_tsumo(pay, dealer_)) : gain_of_ron(pay.ron);
  };
  if (!riichi || score.yakuman > 0) return of_base(score.base);
  const std::int32_t more = base_points(score.han + 1, score.fu, o_.pub.rules);
  return (1 - kUra) * of_base(score.base) + kUra * of_base(more);
}

Ready HandOutlook::ready(const Hand& hand, std::span<const Meld> melds, Declaration how,
                         KindSet discarded) const {
  const Seat& seat = own_seat(o_);
  const bool open = any_open(melds), riichi = how == Declaration::Riichi && !open;
  const KindSet gone = melds.empty() ? 0 : (hand.count + count_tiles(melds)).quads();
  const KindSet wait = waits(hand, static_cast<int>(melds.size()), gone);
  const bool furiten = (wait & (seat.river_kinds | discarded)) != 0;
  Ready ready;
  for_each_kind(wait, [&](Kind kind) {
    if (unseen_[kind] <= 0) return;
    Hand full = hand;
    full.add_kind(kind);
    WinQuery query{.hand = full, .melds = melds, .win_tile = kind};
    query.riichi = riichi;
    query.seat_wind = static_cast<std::uint8_t>(o_.pub.seat_wind(o_.seat));
    query.round_wind = static_cast<std::uint8_t>(o_.pub.round_wind());
    query.indicators = o_.pub.indicator_span();
    const double drawn = unseen_[kind] / unseen_total_;
    const WinScore ron = furiten ? WinScore{} : score_win(query, o_.pub.rules);
    if (ron.is_win()) {
      const double chance = drawn * 3 * release(kind, riichi);
      ready.win += chance;
      ready.gain += chance * worth(ron, false, riichi);
    }
    query.tsumo = true;
    const WinScore tsumo = score_win(query, o_.pub.rules);
    if (tsumo.is_win()) {
      ready.win += drawn;
      ready.gain += drawn * worth(tsumo, true, riichi);
    }
  });
  return ready;
}

double HandOutlook::waiting(const Hand& hand, std::span<const Meld> melds, Declaration how,
                            KindSet discarded) const {
  const Ready last = ready(hand, melds, how, discarded);
  const bool riichi = how == Declaration::Riichi;
  return chain({}, last, riichi) + (riichi ? riichi_stick_ : 0.0);
}

double HandOutlook::one_away(const Hand& hand, std::span<const Meld> melds, KindSet discarded) const {
  const int groups = static_cast<int>(melds.size());
  const bool open = any_open(melds);
  const Declaration how = open ? Declaration::Silent : Declaration::Riichi;
  const KindSet kinds = acceptance(hand, groups, o_.pub.seen).kinds;
  double ways = 0, win = 0, gain = 0;
  const int half = std::max(1, turns_ / 2);
  for_each_kind(kinds, [&](Kind kind) {
    if (unseen_[kind] <= 0) return;
    Hand full = hand;
    full.add_kind(kind);
    Ready best;
    double best_value = 0;
    for_each_kind(best_discards(full, groups).kinds, [&](Kind discard) {
      Hand rest = full;
      rest.remove_kind(discard);
      const Ready one = ready(rest, melds, how, discarded | bit(discard));
      const double value = one.gain * (1 - std::pow(1 - std::min(kMostHazard, one.win + end_), half)) /
                           std::max(1e-9, one.win + end_);
      if (value > best_value) {
        best_value = value;
        best = one;
      }
    });
    if (best.win <= 0) return;
    const double way = hazard(hand, bit(kind), open);
    ways += way;
    win += way * best.win;
    gain += way * best.gain;
  });
  if (ways <= 0) return 0;
  const std::array<double, 1> hazards = {std::min(kMostHazard, ways)};
  return chain(hazards, {win / ways, gain / ways}, false);
}

Ready HandOutlook::expected_ready(double tiles, double han, bool open) const {
  const double drawn = tiles / unseen_total_;
  const double rons = drawn * 3 * (open ? kRonsOfSilent : kRonsOfRiichi);
  const double points = points_of_han(han, dealer_, open);
  return {drawn + rons, drawn * gain_of_tsumo(points * (open ? 1.05 : 1.15)) + rons * gain_of_ron(points)};
}

double HandOutlook::next_hazard(const Hand& hand, int groups, KindSet kinds, bool calls) const {
  double sum = 0, ways = 0;
  for_each_kind(kinds, [&](Kind kind) {
    if (unseen_[kind] <= 0) return;
    Hand full = hand;
    full.add_kind(kind);
    double best = 0;
    for_each_kind(best_discards(full, groups).kinds, [&](Kind discard) {
      Hand rest = full;
      rest.remove_kind(discard);
      best = std::max(best, hazard(rest, acceptance(rest, groups, o_.pub.seen).kinds, calls));
    });
    sum += unseen_[kind] * best;
    ways += unseen_[kind];
  });
  return ways > 0 ? sum / ways : 0;
}

double HandOutlook::farther(const Hand& whole, std::span<const Meld> melds, const Plan& plan) const {
  static constexpr std::array<double, 8> kUsual = {5, 11, 17, 25, 34, 42, 46, 46};  // accepted, by shanten
  const bool open = plan.calls;
  Hand hand = plan.kinds == kAllKinds ? whole : only(whole, plan.kinds);
  int groups = static_cast<int>(melds.size());
  int more = 0;
  if (plan.pair != kNoTile) {
    hand.remove_kind(plan.pair);
    hand.remove_kind(plan.pair);
    ++groups;
    more = 1;
  }
  if (groups > 4) return 0;
  const int distance = std::max(0, shanten(hand, groups)) + more;
  if (distance > 5) return 0;
  KindSet kinds = acceptance(hand, groups, o_.pub.seen).kinds & plan.kinds;
  double first = hazard(hand, kinds, open);
  if (more != 0) first = std::min(kMostHazard, first + unseen_[plan.pair] / unseen_total_ * (1 + 3 * 0.7));
  std::array<double, 6> hazards{};
  const auto levels = static_cast<std::size_t>(std::max(1, distance));
  hazards[0] = first;
  double tiles = 5;
  const double usual = kUsual[levels] * (open ? 1.5 : 1.0) / unseen_total_;
  const double wide = std::clamp(first / usual, 0.4, 1.8);
  for (std::size_t i = 1; i < levels; ++i)
    hazards[i] =
        std::min(kMostHazard, kUsual[levels - i] * (open ? 1.5 : 1.0) * std::sqrt(wide) / unseen_total_);
  if ((levels == 2 || levels == 3) && plan.kinds == kAllKinds && more == 0) {
    const double next = next_hazard(hand, groups, kinds, open);
    if (next > 0) hazards[1] = next;
    if (levels == 3) hazards[2] = hazards[1] * kNextHazard;
    if (levels == 2) tiles = std::clamp(hazards[1] * unseen_total_ / (open ? 5.5 : 3.8), 3.0, 6.5);
  }
  const double han = (plan.han > 0 ? plan.han : expected_han(o_, hand, melds, unseen_)) +
                     dora_held(whole, melds, dora_, plan.kinds);
  return std::pow(kFarWeight, static_cast<double>(levels) - 1) *
         chain(std::span(hazards).first(levels), expected_ready(tiles, han, any_open(melds) || open), false);
}

double HandOutlook::all_triplets(const Hand& hand, std::span<const Meld> melds) const {
  if (std::ranges::any_of(melds, [](const Meld& m) { return m.type == MeldType::Chi; })) return 0;
  int triplets = static_cast<int>(melds.size()), pairs = 0;
  double ways = 0, han = 2;
  for (const Meld& meld : melds) han += is_yakuhai(o_, meld.kind()) ? 1 : 0;
  for_each_kind(hand.count.pairs(), [&](Kind kind) {
    if (hand.count[kind] >= 3)
      ++triplets;
    else if (unseen_[kind] > 0) {
      ++pairs;
      ways += unseen_[kind] * (1 + 3 * release(kind, false));
    }
  });
  const int distance = 8 - 2 * triplets - std::min(pairs, 5 - triplets);
  if (distance < 1 || distance > 3) return 0;
  std::array<double, 3> hazards{};
  hazards[0] = std::min(kMostHazard, ways / unseen_total_);
  for (std::size_t i = 1; i < static_cast<std::size_t>(distance); ++i) hazards[i] = hazards[0] * 0.8;
  return chain(std::span(hazards).first(static_cast<std::size_t>(distance)),
               expected_ready(3.2, han + dora_held(hand, melds, dora_, kAllKinds), true), false);
}

double HandOutlook::planned(const Hand& hand, std::span<const Meld> melds) const {
  KindSet melded = 0;
  double best = 0;
  double yakuhai = 0;
  for (const Meld& meld : melds) {
    melded |= meld.type == MeldType::Chi ? KindSet{7} << meld.kind() : bit(meld.kind());
    if (meld.type != MeldType::Chi && is_yakuhai(o_, meld.kind())) yakuhai += 1;
  }
  Kind pair = kNoTile;
  for_each_kind(hand.count.pairs() & kHonors, [&](Kind kind) {
    if (!is_yakuhai(o_, kind)) return;
    if (hand.count[kind] >= 3)
      yakuhai += 1;
    else if (unseen_[kind] > 0)
      pair = kind;
  });
  if (yakuhai > 0)
    best = std::max(best, farther(hand, melds, {}));
  else if (pair != kNoTile)
    best = std::max(best, farther(hand, melds, {.pair = pair}));
  if ((melded & kYaochuu) == 0 && o_.pub.rules.open_tanyao)
    best = std::max(best, farther(hand, melds, {.kinds = kAllKinds & ~kYaochuu, .han = 1.05}));
  for (int suit = 0; suit < 3; ++suit) {
    const KindSet in_suit = KindSet{0x1FF} << (9 * suit) | kHonors;
    if ((melded & ~in_suit) != 0) continue;
    best = std::max(
        best, farther(hand, melds, {.kinds = in_suit, .han = 2.1 + yakuhai + (pair != kNoTile ? 0.4 : 0)}));
  }
  return std::max(best, all_triplets(hand, melds));
}

double HandOutlook::attack(const Hand& hand, std::span<const Meld> melds, KindSet discarded) const {
  const int distance = shanten(hand, static_cast<int>(melds.size()));
  const bool open = any_open(melds);
  double value = open ? planned(hand, melds) : 0;
  if (distance <= 0) return std::max(value, waiting(hand, melds, Declaration::Silent, discarded));
  if (distance == 1) return std::max(value, one_away(hand, melds, discarded));
  return open ? value : farther(hand, melds, {.calls = false});
}

}  // namespace ingot::mahjong
