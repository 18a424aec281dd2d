#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ingot/dist/communicator.h"
#include "ingot/rl/cost_limit.h"
#include "ingot/rl/game_share.h"
#include "ingot/rl/league.h"
#include "ingot/rl/ppo_loss.h"
#include "ingot/rl/rollout.h"
#include "ingot/train/data_parallel.h"
#include "ingot/train/task.h"

namespace ingot {

struct PpoOptions {
  std::int64_t rollout_steps = 128;  ///< decisions of each game between two rounds of learning
  std::int64_t minibatch = 256;      ///< decisions
  std::int64_t epochs = 4;           ///< over a rollout
  AdvantageOptions advantage;
  PpoCoefficients loss;
  double final_entropy = 0.01;         ///< loss.entropy goes there in a line
  std::optional<double> final_anchor;  ///< loss.anchor goes there in a line; without, it stays
  std::int64_t anneal_steps = 0;       ///< over so many optimizer steps; 0: both stay
  std::string anchor_name = "anchor";  ///< in metrics
  double target_kl = 0;  ///< a minibatch with a larger estimate ends the rollout's learning; 0: never
  bool normalize_advantages = true;
  CostLimitOptions cost_limit;  ///< of what the environment tells as costs; a target of 0: none
  OptimizerConfig optimizer{
      .name = "adam", .learning_rate = 2.5e-4, .weight_decay = 0, .epsilon = 1e-5, .max_grad_norm = 0.5};
  LrSchedule schedule = schedule::Constant{};
  std::int64_t zero_stage = 0;  ///< what ranks share out: see shared_by()
  std::uint64_t seed = 1;
  /// Throws InvalidConfig naming the key.
  void validate() const;
};

/// What the last steps showed, for logs and tests.
struct PpoHealth {
  double policy_loss = 0, value_loss = 0, entropy = 0, kl = 0, clipped = 0, anchor_kl = 0;
  double explained_variance = 0;  ///< of the last rollout: 1 − Var(target − value) / Var(target)
  /// The same by the player's own value, beside an oracle critic.
  std::optional<double> player_explained_variance = std::nullopt;
  /// Rollout::returns a game, of the last rollout in which one ended.
  double mean_return = 0;
  double cost_rate = 0,
         cost_weight = 0;  ///< of the last rollout, with a limit: costs an occasion; multiplier
  std::int64_t rollouts = 0, games = 0;
};

/// PPO as a task of the training runtime: a step is one minibatch; a new rollout is played when the last one
/// is used up. Games, rollout and order are in the checkpoints.
///
/// Ranks that train together each play their share of the games (Environment::share()). All get the decisions
/// of all, in the order of time, and learn from an equal part of every minibatch; gradients are added in the
/// order of ranks. So all have the same weights after every step, and another number of ranks plays the same
/// games and learns from the same minibatches, to rounding.
class PpoTask : public TrainTask {
 public:
  /// All outlive the task. `anchor` and `league` may be null; without a league the network plays all seats.
  /// `ranks`: those that train together, which write checkpoints together; null: this process alone.
  PpoTask(Environment& environment, ActorCritic& network, const PpoOptions& options,
          ActorCritic* anchor = nullptr, League* league = nullptr, dist::Communicator* ranks = nullptr);

  ModuleRef model() override { return network_.module(); }
  TrainOptimizer& optimizer() override { return optimizer_; }
  StepWork gradients(std::int64_t step, const StopCheck& stops) override;
  bool gradients_change_state() const override { return true; }
  void read(std::span<const float> metrics, StepRecord& record) override;
  std::string divergence_advice() const override { return "lower learning_rate or target_kl"; }
  /// Nothing: what a policy is worth shows in games.
  std::optional<double> evaluate(const StopCheck& /*stops*/) override { return std::nullopt; }

  std::string settings() const override;
  std::string earlier_settings() const override;
  std::string state() const override;
  void save(Checkpoint& checkpoint) override;
  void restore(const SavedCheckpoint& saved, TrainProgress& progress) override;

  const PpoHealth& health() const { return health_; }

 private:
  // What is counted of a rollout.
  struct Totals {
    double games_ended = 0, returns = 0, costs = 0, occasions = 0;
  };
  // Values that the critic gave to the decisions of a rollout, with the player's own beside an oracle critic.
  struct Values {
    std::vector<std::uint64_t> moments;
    std::vector<float> critic, player;
  };
  void play();
  void begin_epoch();
  std::vector<float> advantages_of(std::span<const std::int64_t> rows) const;
  PpoBatch batch(std::span<const std::int64_t> rows, std::span<const float> advantage) const;
  ActorCriticOutput outputs(std::span<const std::int64_t> rows) const;
  PpoCoefficients coefficients(std::int64_t step) const;
  std::vector<Tensor> learn(std::span<const std::int64_t> rows, std::int64_t step);
  std::vector<Tensor> learn_from(std::span<const std::int64_t> rows, std::span<const float> advantage,
                                 double share, std::int64_t step);
  Totals of_all_ranks(Totals own) const;
  void limit_costs(const Totals& totals);
  void keep_known(const Rollout& rollout, const Advantages& advantages);
  void gather_known(Values& values);
  GameArrays game_arrays(std::map<std::string, Tensor>& league) const;
  GameArrays saved_games(const SavedCheckpoint& saved, std::map<std::string, Tensor>& league) const;

  Environment& environment_;
  ActorCritic& network_;
  PpoOptions options_;
  bool has_anchor_;
  League* league_;
  dist::Communicator* ranks_;  // null: one process
  RolloutCollector collector_;
  TrainOptimizer optimizer_;
  std::optional<DataParallel> parallel_;  // where there are ranks
  CostLimit cost_limit_;
  PpoHealth health_;

  // The rollout's decisions that are learned from, and where learning is in them.
  std::vector<float> observations_, hidden_, legal_, log_probabilities_, anchor_, advantage_, target_;
  std::vector<std::int64_t> actions_;
  std::vector<std::int64_t> order_;  // of this epoch
  std::int64_t epoch_ = 0, next_ = 0;
};

}  // namespace ingot
