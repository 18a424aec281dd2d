#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ingot/train/checkpoint_directory.h"
#include "ingot/train/loss_watch.h"
#include "ingot/train/reporter.h"
#include "ingot/train/task.h"

namespace ingot {

namespace dist {
class Communicator;
}

/// When things happen in a run. Steps are optimizer steps.
struct TrainerOptions {
  std::int64_t total_steps = 1;
  std::int64_t eval_steps = 0;               ///< 0: only at the end
  std::int64_t early_stopping_patience = 0;  ///< evaluations without a lower loss; 0: never stop early
  /// Of averaged weights, where they are kept, is the loss that decides, and no other is measured.
  bool averages_decide = false;
  bool ties_are_best = false;  ///< BestEvaluation::note
  double max_seconds = 0;      ///< stop after this long; 0: never
  LossWatchConfig loss_watch;

  std::optional<CheckpointDirectory> checkpoints;   ///< nothing: none are written
  std::string checkpoint_format = "ingot.trainer";  ///< "format" of their state
  std::int64_t save_steps = 0;                      ///< 0: never between
  std::optional<double> save_seconds;               ///< or when so much time has passed since the last one
  std::int64_t record_origins = 0;                  ///< steps between those that are kept; 0: none is
  bool save_at_end = true;                          ///< a run that was stopped is saved in any case
  std::int64_t save_total_limit = 3;                ///< the newest ones and the best are kept
};

struct TrainerHooks {
  std::vector<std::shared_ptr<Reporter>> reporters = {};
  /// Asked after every step, between the batches of evaluations and the tokens of GRPO's answers: true saves
  /// a checkpoint of the last whole step and ends the run (Ctrl-C).
  std::function<bool()> should_stop = {};
  /// The processes that do the run together; null: this one alone. It outlives the trainer.
  dist::Communicator* ranks = nullptr;
};

enum class TrainEnd : std::uint8_t { finished, stopped, stopped_early, out_of_time, loss_too_high };
/// "finished", "stopped", "stopped early", "out of time", "loss too high"
std::string_view name(TrainEnd end);

/// Runs a task: steps ahead of the device, evaluations, early stopping, what is done about the loss,
/// checkpoints, reports. Everything that
/// a step depends on is in its checkpoints, so a run that is killed and resumed ends with the same bits as
/// one that never was (for the same number of threads).
///
///     Trainer trainer(task, options, info, hooks);
///     trainer.run();  // or: while (trainer.step()) look_at(task);  trainer.finish();
class Trainer {
 public:
  /// The task outlives the trainer. `info`: what reporters show; steps, device and metadata are filled in.
  Trainer(TrainTask& task, TrainerOptions options, RunInfo info = {}, TrainerHooks hooks = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Goes on from a checkpoint of the same task, before the first step. InvalidConfig that names a setting
  /// which has changed, with the old value and the new; FormatError where it is not a checkpoint of this
  /// kind.
  void resume(const SavedCheckpoint& saved);

  /// Takes one optimizer step and what is due behind it. On a device that works beside the host, the step's
  /// metrics are reported one call later. False when the run is over. Throws NonFinite, naming the step, when
  /// the loss or a gradient is not finite; checkpoints stay. What anomaly detection found is in the
  /// output directory then (train/step_origins.h).
  bool step();
  /// Writes a checkpoint of where the run is, whole on return, and returns its path. InvalidConfig where the
  /// options name no place for checkpoints.
  std::string save();
  /// Changes how many steps the run takes, of which as many as are done at least, and when it evaluates. What
  /// depends on them in the task, such as a schedule, is the caller's.
  void plan(std::int64_t total_steps, std::int64_t eval_steps);
  /// Ends a run, wherever it is: the last metrics, evaluation and checkpoint.
  TrainEnd finish();
  /// All steps that remain, and finish().
  TrainEnd run();

  const TrainProgress& progress() const;
  const RunHistory& history() const;
  /// Of the last step that was reported; 0 before.
  double train_loss() const;
  /// The newest checkpoint that is whole; empty where there is none.
  const std::string& last_checkpoint() const;
  RunInfo& info();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot
