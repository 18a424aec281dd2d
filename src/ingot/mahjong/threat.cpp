#include "ingot/mahjong/threat.h"

#include <algorithm>

#include "ingot/mahjong/seat_view.h"

namespace ingot::mahjong {
namespace {

// Weights of the shapes of a wait per way to hold it: with nothing known 62 % of waits are two-sided, 13 %
// closed, 4 % at the edge, 13 % on two pairs, 8 % on a single tile.
constexpr double kTwoSided = 1, kClosed = 0.27, kEdge = 0.28, kTwoPairs = 0.42, kSingle = 0.38;
constexpr double kSeveralWaits = 1.2;  // hands wait for more than one shape at times

// Chances of tenpai by discards made (0-3, 4-6, 7-9, 10-12, 13-15, 16 or more) and melds.
constexpr std::array<std::array<double, 6>, 5> kTenpai = {{{0.00, 0.003, 0.01, 0.02, 0.04, 0.06},
                                                           {0.02, 0.11, 0.25, 0.40, 0.50, 0.52},
                                                           {0.25, 0.42, 0.60, 0.66, 0.72, 0.78},
                                                           {0.80, 0.88, 0.92, 0.95, 0.96, 0.97},
                                                           {1, 1, 1, 1, 1, 1}}};

// Kinds that others discarded since the player's last discard from the hand or draw: passing made it furiten.
KindSet passed_now(const Observation& o, int player) {
  KindSet kinds = 0;
  for (int i = o.pub.river_size - 1; i >= 0; --i) {
    const RiverTile& one = o.pub.river[static_cast<std::size_t>(i)];
    if (one.player() == player) break;
    if (o.pub.phase == Phase::Reaction && i == o.pub.river_size - 1) continue;  // not passed yet
    kinds |= bit(kind_of(one.tile()));
  }
  return kinds;
}

// What the melds tell of the hand.
struct OpenHand {
  int melds = 0, dora = 0, yakuhai = 0;
  bool all_simples = true;
  int flush_suit = -1;  // of two or more melds in one suit and honours
};

OpenHand read_melds(const Observation& o, int player) {
  const Seat& seat = o.pub.seats[static_cast<std::size_t>(player)];
  OpenHand open;
  KindSet melded = 0;
  const KindSet dora = dora_kinds(o);
  for (const Meld& meld : seat.meld_span()) {
    open.melds += meld.is_open() ? 1 : 0;
    const auto tile = [&](Tile t) {
      if (t == kNoTile) return;
      melded |= bit(kind_of(t));
      open.dora += static_cast<int>(is_red(t)) + static_cast<int>(dora >> kind_of(t) & 1);
    };
    tile(meld.called);
    for (const Tile t : meld.consumed) tile(t);
    const Kind kind = meld.kind();
    if (meld.type != MeldType::Chi && kind >= 27)
      open.yakuhai += static_cast<int>(kind >= 31) + static_cast<int>(kind == 27 + o.pub.round_wind() % 4) +
                      static_cast<int>(kind == 27 + o.pub.seat_wind(player));
  }
  open.all_simples = (melded & kYaochuu) == 0;
  if (seat.meld_count >= 2)
    for (int suit = 0; suit < 3; ++suit) {
      const KindSet in_suit = KindSet{0x1FF} << (9 * suit);
      if ((melded & ~in_suit & ~kHonors) == 0 && (melded & in_suit) != 0) open.flush_suit = suit;
    }
  return open;
}

double tenpai_chance(const Seat& seat, int melds) {
  if (seat.riichi != RiichiState::None) return 1;
  const int phase = seat.discards < 4 ? 0 : std::min(5, (seat.discards - 1) / 3);
  return kTenpai[static_cast<std::size_t>(melds)][static_cast<std::size_t>(phase)];
}

double expected_points(const Observation& o, int player, const OpenHand& open) {
  const Seat& seat = o.pub.seats[static_cast<std::size_t>(player)];
  double han = 0;
  if (seat.riichi != RiichiState::None) {
    han = 3.1 + open.dora + (o.pub.indicator_count - 1) * 0.8;
  } else if (!seat.open) {
    han = 2.6;
  } else {
    const double yaku = open.yakuhai + (open.flush_suit >= 0 ? 1.6 : 0.0);
    han = std::max(1.1, yaku + (open.all_simples ? 0.5 : 0.1)) + open.dora + 0.3;
  }
  return points_of_han(han, o.pub.dealer == player, seat.open);
}

class WaitReader {
 public:
  WaitReader(const Observation& o, int player, const OpenHand& open) : o_(o), open_(open) {
    const Seat& seat = o.pub.seats[static_cast<std::size_t>(player)];
    safe_ = seat.river_kinds | seat.safe_after_riichi | passed_now(o, player);
  }

  std::array<double, kKinds> read() {
    for (Kind kind = 0; kind < kKinds; ++kind)
      unseen_[kind] = 4 - o_.pub.seen[kind] - o_.own.hand.count[kind];
    for (Kind suit = 0; suit < 3; ++suit) runs(static_cast<Kind>(9 * suit));
    for (Kind kind = 0; kind < kKinds; ++kind) {
      const int n = unseen_[kind];
      const double likelihood = likelihood_of(kind);
      add(likelihood * kTwoPairs * n * (n - 1) / 2, kind, kind);
      add(likelihood * kSingle * n, kind, kind);
    }
    if (total_ > 0)
      for (double& chance : chances_) chance = std::min(1.0, kSeveralWaits * chance / total_);
    return chances_;
  }

 private:
  void runs(Kind first) {
    const double likelihood = likelihood_of(first);
    const auto n = [&](int number) { return unseen_[static_cast<std::size_t>(first + number)]; };
    const auto at = [&](int number) { return static_cast<Kind>(first + number); };
    for (int i = 0; i < 8; ++i) {
      const double ways = likelihood * n(i) * n(i + 1);
      if (i == 0 || i == 7)
        add(ways * kEdge, at(i == 0 ? 2 : 6), at(i == 0 ? 2 : 6));
      else
        add(ways * kTwoSided, at(i - 1), at(i + 2));
    }
    for (int i = 0; i < 7; ++i) add(likelihood * kClosed * n(i) * n(i + 2), at(i + 1), at(i + 1));
  }
  double likelihood_of(Kind kind) const {
    double likelihood = 1;
    if (open_.flush_suit >= 0) likelihood = kind >= 27 ? 1.5 : suit_of(kind) == open_.flush_suit ? 2.0 : 0.6;
    if (open_.melds > 0 && open_.all_simples && open_.yakuhai == 0 && (kYaochuu >> kind & 1) != 0 &&
        kind >= 27)
      likelihood *= 0.6;
    return likelihood;
  }
  void add(double weight, Kind a, Kind b) {
    if (weight <= 0 || ((safe_ >> a | safe_ >> b) & 1) != 0) return;
    total_ += weight;
    chances_[a] += weight;
    if (b != a) chances_[b] += weight;
  }

  const Observation& o_;
  const OpenHand& open_;
  KindSet safe_ = 0;
  std::array<int, kKinds> unseen_{};
  std::array<double, kKinds> chances_{};
  double total_ = 0;
};

}  // namespace

std::array<Threat, 3> read_threats(const Observation& o) {
  std::array<Threat, 3> threats;
  for (int i = 0; i < 3; ++i) {
    const int player = (o.seat + 1 + i) % 4;
    Threat& threat = threats[static_cast<std::size_t>(i)];
    const OpenHand open = read_melds(o, player);
    threat.tenpai = tenpai_chance(o.pub.seats[static_cast<std::size_t>(player)], open.melds);
    threat.points = expected_points(o, player, open);
    threat.waits = WaitReader(o, player, open).read();
  }
  return threats;
}

}  // namespace ingot::mahjong
