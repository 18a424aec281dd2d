#include "ingot/mahjong/outlook_channels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "ingot/mahjong/decision_outlook.h"
#include "ingot/mahjong/policy.h"
#include "ingot/mahjong/seat_view.h"

namespace ingot::mahjong {
namespace {

// Channels; the pairs are the same number coarse and fine, as some choices differ by tenths of a place and
// others by thousandths.
enum Row : std::size_t {
  kAttack = 0,
  kAttackRank = 1,
  kRiichiRank = 3,
  kDealIn = 5,
  kCost = 6,
  kCostFine = 7,
  kFold = 8,
  kFoldRank = 9,
  kRiichiGain = 11,
  kKanGain = 13,
  kCallGain = 15,  // chi with the called tile lowest, middle, highest; pon
  kCallGainFine = 19,
  kPass = 23,
  kDora = 24,
};
static_assert(kDora + 1 == kOutlookChannels);

constexpr double kAttackScale = 2, kDealInScale = 4, kCostScale = 8, kPassScale = 4;
constexpr double kCoarse = 10, kFine = 200, kFineCall = 50;

class Writer {
 public:
  Writer(const Observation& o, std::span<float> out) : o_(o), outlook_(o), out_(out) {}

  void write() {
    const ActionList legal = legal_actions(o_);
    for (Kind kind = 0; kind < kKinds; ++kind) {
      at(kDealIn, kind, kDealInScale * outlook_.deal_in(kind));
      at(kCost, kind, kCostScale * outlook_.deal_in_cost(kind));
      at(kCostFine, kind, std::max(-1.0, kFine * outlook_.deal_in_cost(kind)));
    }
    for_each_kind(dora_kinds(o_), [&](Kind kind) { at(kDora, kind, 1); });
    if (o_.pub.phase == Phase::Turn) turn(legal);
    if (o_.pub.phase == Phase::Reaction) claims(legal);
  }

 private:
  using Values = std::array<double, kKinds>;

  void at(std::size_t row, Kind kind, double value) { out_[row * kKinds + kind] = static_cast<float>(value); }
  void fill(std::size_t row, double value) {
    std::fill_n(out_.begin() + static_cast<std::ptrdiff_t>(row * kKinds), kKinds, static_cast<float>(value));
  }
  // 1 for the best, less for the others, 0 from some distance on.
  void rank(std::size_t row, KindSet kinds, const Values& values) {
    double best = -1e9;
    for_each_kind(kinds, [&](Kind kind) { best = std::max(best, values[kind]); });
    for_each_kind(kinds, [&](Kind kind) {
      at(row, kind, std::max(0.0, 1 + kCoarse * (values[kind] - best)));
      at(row + 1, kind, std::max(0.0, 1 + kFine * (values[kind] - best)));
    });
  }
  void gain(std::size_t coarse, std::size_t fine, double value, double scale) {
    fill(coarse, std::clamp(kCoarse * value, -1.0, 1.0));
    fill(fine, std::clamp(scale * value, -1.0, 1.0));
  }

  void turn(const ActionList& legal) {
    KindSet kinds = 0;
    for (const Action& action : legal)
      if (action.type == ActionType::Discard) kinds |= bit(kind_of(action.tile));
    if (std::popcount(kinds) < 2 && legal.size() < 2) return;
    const bool riichi = o_.pub.declaring || legal.find(ActionType::Riichi) != nullptr;
    const double declared = riichi ? declare(kinds & outlook_.nearest()) : 0;
    if (o_.pub.declaring) return;
    const double kept = discard(kinds);
    if (riichi) gain(kRiichiGain, kRiichiGain + 1, declared - kept, kFine);
    std::optional<double> kan;
    for (const Action& action : legal)
      if (action.type == ActionType::Ankan || action.type == ActionType::Kakan)
        kan = std::max(kan.value_or(-1e9), outlook_.after_kan(action));
    if (kan.has_value()) gain(kKanGain, kKanGain + 1, *kan - kept, kFine);
  }
  double declare(KindSet kinds) {
    Values values{};
    double best = -1e9;
    for_each_kind(kinds, [&](Kind kind) { best = std::max(best, values[kind] = outlook_.riichi(kind)); });
    rank(kRiichiRank, kinds, values);
    return best;
  }
  double discard(KindSet kinds) {
    Values attack{}, fold{};
    double best = -1e9;
    for_each_kind(kinds, [&](Kind kind) {
      const DecisionOutlook::Discard one = outlook_.discard(kind);
      attack[kind] = one.attack;
      fold[kind] = one.fold;
      at(kAttack, kind, kAttackScale * one.attack);
      at(kFold, kind, kCostScale * one.fold);
      best = std::max(best, one.worth());
    });
    rank(kAttackRank, kinds, attack);
    rank(kFoldRank, kinds, fold);
    return best;
  }
  void claims(const ActionList& legal) {
    const DecisionOutlook::Discard pass = outlook_.pass();
    const double passed = pass.worth();
    fill(kAttack, kAttackScale * pass.attack);
    fill(kFold, kCostScale * pass.fold);
    fill(kPass, kPassScale * passed);
    std::array<double, 4> best;
    best.fill(-1e9);
    for (const Action& action : legal) {
      if (action.type != ActionType::Chi && action.type != ActionType::Pon) continue;
      double& value = best[static_cast<std::size_t>(policy_index(action) - kPolicyChiLow)];
      value = std::max(value, outlook_.after_call(action));
    }
    for (std::size_t i = 0; i < best.size(); ++i)
      if (best[i] > -1e9) gain(kCallGain + i, kCallGainFine + i, best[i] - passed, kFineCall);
  }

  const Observation& o_;
  DecisionOutlook outlook_;
  std::span<float> out_;
};

}  // namespace

void encode_outlook(const Observation& o, std::span<float> out) {
  INGOT_CHECK(out.size() == std::size_t{kOutlookChannels} * kKinds,
              ShapeMismatch("mahjong::encode_outlook", {kOutlookChannels, kKinds},
                            {static_cast<std::int64_t>(out.size())}));
  std::ranges::fill(out, 0.0F);
  const Seat& seat = own_seat(o);
  if (seat.riichi == RiichiState::Accepted) return;  // nothing is left to weigh
  Writer(o, out).write();
}

}  // namespace ingot::mahjong
