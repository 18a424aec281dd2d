#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ingot/dist/communicator.h"
#include "ingot/rl/mahjong_train_config.h"
#include "ingot/train/trainer.h"

namespace ingot {

struct MahjongTrainHooks {
  std::vector<std::shared_ptr<Reporter>> reporters;  ///< beside those of report_to
  std::function<bool()> should_stop;
  /// The configuration for the report.
  std::vector<Setting> effective_config;
};

struct MahjongTrainResult {
  TrainEnd end = TrainEnd::finished;
  std::int64_t steps = 0;
  double train_loss = 0;
  std::optional<EvalRecord> evaluation;  ///< the last one
  std::string model_directory;           ///< empty where the run was stopped
  std::string last_checkpoint;
};

/// A run of one phase, from its configuration to the directory of the network that it leaves in
/// output_dir/model. Owns all that the phase needs. With several ranks, of which the first writes and
/// reports, in phases that play; InvalidConfig names what they do not agree on.
class MahjongTraining {
 public:
  explicit MahjongTraining(MahjongTrainConfig config, MahjongTrainHooks hooks = {},
                           dist::Communicator& ranks = dist::world());
  ~MahjongTraining();
  MahjongTraining(const MahjongTraining&) = delete;
  MahjongTraining& operator=(const MahjongTraining&) = delete;

  Trainer& trainer();
  ModuleRef network();
  /// What was found to learn from, in a line.
  const std::string& description() const;
  /// All steps that remain, then the network's directory.
  MahjongTrainResult run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot
