#include "ingot/mahjong/policy.h"

#include <fmt/core.h>

namespace ingot::mahjong {
namespace {

int reds(const Action& action) { return (is_red(action.a) ? 1 : 0) + (is_red(action.b) ? 1 : 0); }

bool is_kan(ActionType type) {
  return type == ActionType::Daiminkan || type == ActionType::Ankan || type == ActionType::Kakan;
}

// Whether `one` is what an index should mean rather than `other`, which has the same index.
bool preferred(const Action& one, const Action& other) {
  if (one.type == ActionType::Discard) return one.tsumogiri();
  return reds(one) > reds(other);
}

}  // namespace

std::span<const std::string_view> policy_kinds() {
  static constexpr std::string_view kNames[] = {"discard", "riichi", "chi",          "pon",
                                                "kan",     "win",    "nine orphans", "pass"};
  return kNames;
}

std::size_t policy_kind(int index) {
  if (index < kPolicyRiichi) return 0;
  constexpr std::size_t kinds[] = {1, 2, 2, 2, 3, 4, 5, 6, 7};
  return kinds[index - kPolicyRiichi];
}

std::string policy_name(int index) {
  if (index < kPolicyRiichi) return fmt::format("discard {}", tile_name(static_cast<Tile>(index)));
  constexpr std::string_view where[] = {"lowest", "middle", "highest"};
  const std::string_view kind = policy_kinds()[policy_kind(index)];
  if (index < kPolicyChiLow || index >= kPolicyPon) return std::string(kind);
  return fmt::format("chi (called tile {})", where[index - kPolicyChiLow]);
}

int policy_index(const Action& action) {
  switch (action.type) {
    case ActionType::Discard:
      return action.tile;
    case ActionType::Riichi:
      return kPolicyRiichi;
    case ActionType::Chi: {
      const Kind called = kind_of(action.tile);
      return kPolicyChiLow + (kind_of(action.a) < called) + (kind_of(action.b) < called);
    }
    case ActionType::Pon:
      return kPolicyPon;
    case ActionType::Daiminkan:
    case ActionType::Ankan:
    case ActionType::Kakan:
      return kPolicyKan;
    case ActionType::Tsumo:
    case ActionType::Ron:
      return kPolicyWin;
    case ActionType::NineOrphans:
      return kPolicyNineOrphans;
    case ActionType::Pass:
      break;
  }
  return kPolicyPass;
}

std::uint64_t policy_mask(const ActionList& legal) {
  std::uint64_t mask = 0;
  for (const Action& action : legal) mask |= std::uint64_t{1} << policy_index(action);
  return mask;
}

KindSet kan_kinds(const ActionList& legal) {
  KindSet kinds = 0;
  for (const Action& action : legal)
    if (is_kan(action.type)) kinds |= bit(kind_of(action.tile));
  return kinds;
}

Action policy_action(const ActionList& legal, int index, Kind kan) {
  const Action* best = nullptr;
  for (const Action& action : legal) {
    if (policy_index(action) != index) continue;
    if (is_kan(action.type)) {
      if (kan != kNoTile && kind_of(action.tile) != kan) continue;
      if (best == nullptr || kind_of(action.tile) < kind_of(best->tile)) best = &action;
    } else if (best == nullptr || preferred(action, *best)) {
      best = &action;
    }
  }
  INGOT_CHECK(best != nullptr, IllegalAction(fmt::format("policy action {} is not legal now (mask {:#x})",
                                                         index, policy_mask(legal))));
  return *best;
}

}  // namespace ingot::mahjong
