#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ingot/mahjong/decision_stream.h"
#include "ingot/mahjong/policy.h"
#include "ingot/rl/mahjong_batch.h"
#include "ingot/train/data_parallel.h"
#include "ingot/train/task.h"

namespace ingot {

/// What the heads' losses count for beside the policy's, which counts for 1.
struct CloneWeights {
  double value = 0.5, rank = 0.1, tenpai = 0.1, danger = 0.5;
};

struct CloneOptions {
  std::int64_t batch_size = 512;
  CloneWeights weights;
  mahjong::DecisionStreamOptions stream;
  OptimizerConfig optimizer{.learning_rate = 1e-3, .weight_decay = 0.01};
  LrSchedule schedule = schedule::Constant{};
  std::string schedule_name = "constant";  ///< for settings that a resumed run may not change
  double ema_decay = 0;
  std::int64_t zero_stage = 0;  ///< what ranks share out: see shared_by()
};

/// Behaviour cloning: the network learns to answer as the players of the games did, and what it can know of
/// the table: ranks, tenpai, danger, and what the game will bring. A step is one batch.
class CloneTask : public TrainTask {
 public:
  /// `net` outlives the task. `validation` may be empty; at most `validation_decisions` of it are looked at.
  /// `ranks`: the processes that learn together, each from a part of every batch; null: this one alone.
  CloneTask(DualPoolNet& net, const mahjong::GameIndex& games, const mahjong::GameIndex& validation,
            std::int64_t validation_decisions, const CloneOptions& options,
            dist::Communicator* ranks = nullptr);

  ModuleRef model() override { return net_; }
  TrainOptimizer& optimizer() override { return optimizer_; }
  StepWork gradients(std::int64_t step, const StopCheck& stops) override;
  void read(std::span<const float> metrics, StepRecord& record) override;
  StepSize step_size() const override;

  std::optional<double> evaluate(const StopCheck& stops) override;
  void read_evaluation(EvalRecord& record) const override;

  std::string settings() const override;
  std::string state() const override;
  void restore(const SavedCheckpoint& saved, TrainProgress& progress) override;

  const mahjong::DecisionStream& stream() const { return stream_; }

 private:
  struct Losses {
    Tensor total, policy, value, rank, tenpai, danger;
    Tensor right;  // share of decisions answered as the player did
    Tensor log_policy;
  };
  // Of a batch of the validation decisions.
  struct Measured {
    std::array<double, 6> losses{};              // times the decisions
    std::array<std::int64_t, 8> right{}, all{};  // by kind of action: answered as the player did
    std::int64_t same_in_other_suits = 0;
  };
  Losses losses(const MahjongExamples& examples) const;
  Tensor learn(std::span<const mahjong::LabelledDecision> decisions, double share);
  Measured measure(std::span<const mahjong::LabelledDecision> decisions) const;
  std::vector<Measured> of_all_ranks(std::vector<Measured> own, std::size_t batches) const;
  std::int64_t suit_agreements(std::span<const mahjong::LabelledDecision> decisions,
                               std::span<const std::int64_t> best) const;

  DualPoolNet& net_;
  CloneOptions options_;
  mahjong::EncoderOptions encoding_;
  std::string digest_;
  double decisions_per_epoch_;
  mahjong::DecisionStream stream_;
  mahjong::DecisionStream::Position position_;  // behind the last step's batch
  std::vector<mahjong::LabelledDecision> validation_;
  TrainOptimizer optimizer_;
  dist::Communicator* ranks_;
  std::optional<DataParallel> parallel_;  // where there are ranks
  NamedValues measured_;
};

}  // namespace ingot
