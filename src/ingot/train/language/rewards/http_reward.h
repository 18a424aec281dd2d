#pragma once

#include <memory>

#include "ingot/train/language/rewards/reward.h"

namespace ingot {

/// A reward model or a program of one's own behind an address: all answers of a step are one POST of
/// {"prompts": [...], "completions": [...], "records": [...]}, answered by as many numbers: [...], or
/// {"rewards": [...]} or {"scores": [...]}, as OpenRLHF's and other reward servers do.
std::unique_ptr<Reward> make_http_reward(const RewardConfig& config);

}  // namespace ingot
