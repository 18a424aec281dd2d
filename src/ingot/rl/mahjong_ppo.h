#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ingot/dist/communicator.h"
#include "ingot/mahjong/arena.h"
#include "ingot/rl/dual_pool_player.h"
#include "ingot/rl/mahjong_game.h"
#include "ingot/rl/ppo_task.h"
#include "ingot/rl/rank_reward.h"

namespace ingot {

struct MahjongPpoOptions {
  PpoOptions ppo{
      .rollout_steps = 64,
      .minibatch = 1024,
      .epochs = 2,
      .advantage = {.gamma = 1, .lambda = 0.95},
      .loss = {.clip = 0.1, .entropy = 0.01, .anchor = 0.05},
      .final_entropy = 0.005,
      .target_kl = 0.02,
      .optimizer = {
          .name = "adam", .learning_rate = 1e-4, .weight_decay = 0, .epsilon = 1e-5, .max_grad_norm = 0.5}};
  std::int64_t tables = 64;  ///< games that are played together
  LeagueOptions league{.past = 0.3};
  double base_share = 0;  ///< of the other seats, for the network that it began as
  /// An oracle critic for the network: the channels of its blocks (0: none), and how many.
  struct OracleCritic {
    std::int64_t channels = 0, blocks = 2;
  };
  OracleCritic oracle_critic;
  std::string league_directory;  ///< keeps every past self, as a network of its own; empty: none is kept
  std::vector<std::pair<std::string, double>> players;  ///< built-in opponents, with their shares
  std::int64_t eval_walls = 25;                         ///< of an evaluation; each is four games
};

/// The networks beside the one that learns.
struct MahjongPpoNetworks {
  std::unique_ptr<DualPoolNet> base;          ///< what it began as
  std::unique_ptr<DualPoolNet> teacher = {};  ///< an oracle, the anchor in the base's place; null: none
  std::unique_ptr<RankNet> rank = {};         ///< pays chances of places (rl/rank_reward.h); null: points
};

/// PPO in mahjong from a cloned network: it plays itself, past selves and built-in players, and is held near
/// an anchor, the network that it began as or an oracle that teaches it. An evaluation is an arena of one
/// against three bases on walls that stay the same: the "loss" is the mean place. A network that reads what
/// is hidden, too, is an oracle (is_mahjong_oracle): there is no evaluation.
class MahjongPpo : public TrainTask {
 public:
  /// `net` outlives the task. `origin` names where it comes from. `ranks`: those that train together, as
  /// PpoTask does; the first plays evaluations.
  MahjongPpo(DualPoolNet& net, MahjongPpoNetworks networks, const std::string& origin,
             const MahjongPpoOptions& options, dist::Communicator& ranks);
  ~MahjongPpo() override;

  ModuleRef model() override { return net_; }
  TrainOptimizer& optimizer() override;
  StepWork gradients(std::int64_t step, const StopCheck& stops) override;
  bool gradients_change_state() const override { return true; }
  void read(std::span<const float> metrics, StepRecord& record) override;
  std::string divergence_advice() const override;
  std::optional<double> evaluate(const StopCheck& stops) override;
  void read_evaluation(EvalRecord& record) const override;
  std::string settings() const override;
  std::string earlier_settings() const override;
  std::string state() const override;
  void save(Checkpoint& checkpoint) override;
  void restore(const SavedCheckpoint& saved, TrainProgress& progress) override;

  const PpoHealth& health() const;

 private:
  struct Parts;
  bool is_oracle() const;
  using Measured = std::array<double, 7>;
  Measured play_evaluation() const;

  DualPoolNet& net_;
  MahjongPpoOptions options_;
  dist::Communicator& ranks_;
  std::unique_ptr<Parts> parts_;
  NamedValues measured_;
};

}  // namespace ingot
