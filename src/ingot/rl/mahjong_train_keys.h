#pragma once

#include <vector>

#include "ingot/base/config_table.h"
#include "ingot/rl/mahjong_train_config.h"

namespace ingot {

/// All keys of `ingot mahjong train`, for help and the reference pages.
std::vector<ConfigSection> mahjong_train_reference();

/// The tables by which they are read: those of every run, and those of its phase.
namespace mahjong_train {
const ConfigTable<MahjongTrainConfig>& run_keys();
const ConfigTable<DualPoolNetConfig>& network_keys();
const ConfigTable<MahjongTrainConfig>& games_keys();
const ConfigTable<mahjong::GameFilter>& filter_keys();
const ConfigTable<MahjongTrainConfig>& rank_keys();
const ConfigTable<MahjongTrainConfig>& clone_keys();
const ConfigTable<MahjongPpoOptions>& ppo_keys();
const ConfigTable<MahjongPpoOptions::OracleCritic>& oracle_critic_keys();
const ConfigTable<MahjongPpoOptions>& base_keys();
const ConfigTable<CostLimitOptions>& deal_in_keys();
const ConfigTable<LeagueOptions>& league_keys();
}  // namespace mahjong_train

}  // namespace ingot
