#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/mahjong/game_filter.h"
#include "ingot/mahjong/rules.h"
#include "ingot/models/policy/dual_pool_net.h"
#include "ingot/rl/clone_task.h"
#include "ingot/rl/mahjong_ppo.h"
#include "ingot/rl/rank_task.h"

namespace ingot {

class Config;

/// Everything that `ingot mahjong train` reads; docs/self-play.md lists the keys.
struct MahjongTrainConfig {
  std::string phase;  ///< "grp", "bc", "ppo", "oracle", "distil"
  std::string output_dir = "output", run_name = "run";
  std::string base_model;  ///< directory of the network to start from; empty: a fresh one
  DualPoolNetConfig network;
  std::string device = "auto";
  DType dtype = DType::f32;  ///< of the network's weights and activations in bc and ppo
  std::uint64_t seed = 1;
  std::int64_t threads = 0;     ///< 0: all
  std::int64_t zero_stage = 0;  ///< what ranks share out: 0 nothing, 1 optimizer state, 2 gradients too
  double ddp_timeout = 1800;    ///< seconds; 0: ranks wait for each other for ever

  std::int64_t max_steps = 1000, logging_steps = 1, eval_steps = 0, save_steps = 500, save_total_limit = 3;
  double max_seconds = 0;
  bool resume_from_checkpoint = false;
  std::vector<std::string> report_to{"jsonl", "tensorboard", "html"};
  std::string lr_scheduler_type = "cosine";
  double warmup_ratio = 0, final_lr_fraction = 0;

  // bc
  std::vector<std::string> games;  ///< files and directories of logs
  std::string index;               ///< file that remembers what was replayed; empty: <output_dir>/index.jsonl
  mahjong::Rules rules;            ///< of logs that do not name theirs
  mahjong::GameFilter filter;      ///< whose decisions of them
  double validation_split_ratio = 0.05;
  std::int64_t validation_decisions = 8192;
  CloneOptions clone;

  MahjongPpoOptions ppo;     ///< of ppo, oracle and distil
  std::string reward_model;  ///< directory of a RankNet; empty: points are the reward
  std::string teacher;       ///< of distil: directory that oracle left
  /// Whether the phase plays: ppo, oracle, distil.
  bool plays() const { return phase != "grp" && phase != "bc"; }

  // grp; games and their keys are bc's
  RankOptions rank;
  std::int64_t rank_hidden = 128;

  /// Throws InvalidConfig naming the key.
  void validate() const;
};

/// Reads a configuration. Throws InvalidConfig naming key, line and what is expected, also for keys that it
/// does not know.
MahjongTrainConfig read_mahjong_train_config(Config& file);

}  // namespace ingot
