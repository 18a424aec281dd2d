#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ingot/mahjong/table.h"

namespace ingot::mahjong {

/// The 46 actions of a policy head (the numbering Mortal and Hydra share): 0-33 discard a plain tile, 34-36
/// discard a red five, 37 riichi, 38 39 40 chi with the called tile lowest, middle, highest, 41 pon, 42 kan,
/// 43 tsumo or ron, 44 nine orphans, 45 pass. Riichi and, where several are possible, kan are followed by a
/// second choice.
///
/// Chi and pon do not say which five to use: a red one always is (it keeps its dora in the meld, where it
/// cannot be lost to a discard). A discard does not say whether the drawn tile or its twin goes: the drawn
/// one does.
inline constexpr int kPolicyActions = 46;
inline constexpr int kPolicyRiichi = 37, kPolicyChiLow = 38, kPolicyPon = 41, kPolicyKan = 42,
                     kPolicyWin = 43, kPolicyNineOrphans = 44, kPolicyPass = 45;

/// The kinds of the 46 for counting: "discard", "riichi", "chi", "pon", "kan", "win", "nine orphans", "pass".
std::span<const std::string_view> policy_kinds();
/// Which of those an index is.
std::size_t policy_kind(int index);
/// "discard 5mr", "riichi", "chi (called tile lowest)".
std::string policy_name(int index);

/// Which of the 46 an action is.
int policy_index(const Action& action);
/// Bit i: action i is legal.
std::uint64_t policy_mask(const ActionList& legal);
/// The kinds that action 42 may mean, for the second choice where there are several.
KindSet kan_kinds(const ActionList& legal);
/// The legal action that an index means. `kan` chooses among kan_kinds; kNoTile takes the only or lowest one.
/// Throws IllegalAction if the index is not in the mask.
Action policy_action(const ActionList& legal, int index, Kind kan = kNoTile);

}  // namespace ingot::mahjong
