#include "ingot/mahjong/place_utility.h"

#include <algorithm>
#include <cmath>

namespace ingot::mahjong {
namespace {

constexpr double kPointsOfTie = 50;         // who sits earlier ranks higher: half of the smallest difference
constexpr double kRoundDeviation = 7000;    // of the difference of two scores over one round
constexpr double kEstimateDeviation = 700;  // payments are estimates
constexpr double kPointsWorthAPlace = 60'000;  // beside places: results count points too

// The normal distribution function, by the logistic function that is nearest to it.
double chance_below(double x) { return 1 / (1 + std::exp(-1.702 * x)); }

int last_round(GameLength length) {
  if (length == GameLength::SingleRound) return 0;
  return length == GameLength::East ? 3 : 7;
}

}  // namespace

PlaceUtility::PlaceUtility(const Observation& o) {
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t seat = (o.seat + i) % 4;
    score_[i] = o.pub.seats[seat].score - kPointsOfTie * static_cast<double>(seat);
  }
  const int left = std::max(0, last_round(o.pub.rules.length) - o.pub.round);
  const auto deviation = [](int rounds) {
    return std::sqrt(kEstimateDeviation * kEstimateDeviation + rounds * kRoundDeviation * kRoundDeviation);
  };
  next_deviation_ = deviation(left);
  const bool deals = o.pub.dealer == o.seat;
  own_win_deviation_ = deviation(deals ? left + 1 : left);
  honba_ = 300.0 * o.pub.honba;
  sticks_ = 1000.0 * o.pub.sticks;
  dealer_ = (o.pub.dealer - o.seat + 4) % 4;
  now_ = 0;
  own_win_now_ = 0;
  now_ = after({}, next_deviation_);
  own_win_now_ = after({}, own_win_deviation_);
}

double PlaceUtility::after(const std::array<double, 4>& change, double deviation) const {
  double above = 0;
  const double own = score_[0] + change[0];
  for (std::size_t i = 1; i < 4; ++i) above += chance_below((score_[i] + change[i] - own) / deviation);
  const double base = deviation == own_win_deviation_ && deviation != next_deviation_ ? own_win_now_ : now_;
  return -above + change[0] / kPointsWorthAPlace - base;
}

double PlaceUtility::ron(double points) const {
  double sum = 0;
  const double won = points + honba_;
  for (std::size_t from = 1; from < 4; ++from) {
    std::array<double, 4> change{won + sticks_};
    change[from] = -won;
    sum += after(change, own_win_deviation_);
  }
  return sum / 3;
}

double PlaceUtility::tsumo(double points) const {
  const double won = points + honba_;
  std::array<double, 4> change{won + sticks_};
  for (std::size_t i = 1; i < 4; ++i) {
    const bool dealer = static_cast<int>(i) == dealer_;
    change[i] = -won * (dealer_ == 0 ? 1.0 / 3 : dealer ? 0.5 : 0.25);
  }
  return after(change, own_win_deviation_);
}

double PlaceUtility::deal_in(int winner, double points) const {
  const double paid = points + honba_;
  std::array<double, 4> change{-paid};
  change[static_cast<std::size_t>(winner)] = paid + sticks_;
  return after(change, next_deviation_);
}

}  // namespace ingot::mahjong
