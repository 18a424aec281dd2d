#pragma once

#include <optional>
#include <vector>

#include "ingot/mahjong/game_index.h"
#include "ingot/models/policy/rank_net.h"
#include "ingot/train/data_parallel.h"
#include "ingot/train/task.h"

namespace ingot {

struct RankOptions {
  std::int64_t batch_size = 1024;
  std::uint64_t seed = 1;
  OptimizerConfig optimizer{.learning_rate = 1e-3, .weight_decay = 1e-4};
  LrSchedule schedule = schedule::Constant{};
  std::int64_t zero_stage = 0;  ///< what ranks share out: see shared_by()
};

/// Beginnings of rounds as each seat sees them, with how the games ended.
struct RankExamples {
  std::vector<float> contexts;       ///< [examples, 16]
  std::vector<std::int64_t> orders;  ///< of the 24
};
/// Of all games that were played to their end. What cannot be read any more is left out.
RankExamples rank_examples(const mahjong::GameIndex& index);

/// Teaches RankNet the odds of places from beginnings of rounds. A step is a batch drawn from all of them.
class RankTask : public TrainTask {
 public:
  /// `net` outlives the task. InvalidConfig where no game in `games` was played to its end.
  /// `ranks`: the processes that learn together, each from a part of every batch; null: this one alone.
  RankTask(RankNet& net, const mahjong::GameIndex& games, const mahjong::GameIndex& validation,
           const RankOptions& options, dist::Communicator* ranks = nullptr);

  ModuleRef model() override { return net_; }
  TrainOptimizer& optimizer() override { return optimizer_; }
  StepWork gradients(std::int64_t step, const StopCheck& stops) override;
  std::optional<double> evaluate(const StopCheck& stops) override;
  std::string settings() const override;

  std::size_t examples() const { return train_.orders.size(); }

 private:
  RankNet& net_;
  RankOptions options_;
  std::string digest_;
  RankExamples train_, validation_;
  TrainOptimizer optimizer_;
  dist::Communicator* ranks_;
  std::optional<DataParallel> parallel_;  // where there are ranks
};

}  // namespace ingot
