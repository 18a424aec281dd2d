#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/nn/visit.h"
#include "ingot/train/best_evaluation.h"
#include "ingot/train/checkpoint_directory.h"
#include "ingot/train/history.h"
#include "ingot/train/optimizer_setup.h"

namespace ingot {

/// What a step's forward and backward passes leave beside the gradients.
struct StepWork {
  Tensor metrics;          ///< f32, on the model's device, of the same size in every step: read() explains it
  Tensor grad_scale = {};  ///< what the optimizer multiplies gradients with; undefined for 1
};

/// How much work one step is, for rates; 0 where that has no meaning.
struct StepSize {
  double tokens = 0, flops = 0, epochs = 0;
};

/// How far a run has come.
struct TrainProgress {
  std::int64_t step = 0;  ///< optimizer steps done
  BestEvaluation best;
};

/// Thrown by TrainTask::gradients() and evaluate() where they cannot be done and nothing has changed: the
/// trainer saves what was learned until then and passes it on.
class StepRefused : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override { return "step_refused"; }
};

/// Whether the run is to stop: the same answer for all ranks. Empty: never.
using StopCheck = std::function<bool()>;

/// Thrown by check_stop(), out of an evaluation or a step's gradients: the trainer saves the last whole step,
/// and a run that goes on begins the evaluation or the step anew.
struct WorkStopped : std::exception {};

/// Called between the batches of an evaluation and the tokens of a step's answers, by all ranks alike.
inline void check_stop(const StopCheck& stops) {
  if (stops && stops()) throw WorkStopped();
}

/// One kind of training: what is trained, what a step is, how good the model is. When things happen, and
/// what is common to all, is the Trainer's (train/trainer.h).
class TrainTask {
 public:
  TrainTask() = default;
  virtual ~TrainTask() = default;
  TrainTask(const TrainTask&) = delete;
  TrainTask& operator=(const TrainTask&) = delete;

  virtual ModuleRef model() = 0;
  virtual TrainOptimizer& optimizer() = 0;

  /// Puts the forward and backward passes of a step, counted from 0, into the device's current stream, and
  /// leaves the gradients with the parameters. What depends on chance names its stream by the step, so that
  /// a resumed run draws the same. One that takes long calls check_stop before it changes anything.
  virtual StepWork gradients(std::int64_t step, const StopCheck& stops) = 0;
  /// Whether gradients() changes tensors that save() keeps, such as running statistics: a checkpoint then
  /// copies them before the next step begins, and not beside it.
  virtual bool gradients_change_state() const { return false; }
  /// Tells the loss, and what else `metrics` hold, of step record.step; metrics of this kind of training
  /// alone go to record.values. Called in the order of steps. Here: the loss, then the norm of the gradients
  /// if there is a second value.
  virtual void read(std::span<const float> metrics, StepRecord& record);
  virtual StepSize step_size() const { return {}; }
  /// What to do about a loss that is not finite, for an error.
  virtual std::string divergence_advice() const { return "lower learning_rate"; }

  /// The mean loss on validation data with the model as it is; nothing where there is no target in it. One
  /// that takes long calls check_stop between its batches.
  virtual std::optional<double> evaluate(const StopCheck& stops) = 0;
  /// Adds what else the last evaluate() measured to record.values.
  virtual void read_evaluation(EvalRecord& /*record*/) const {}
  /// After each evaluation that decides which weights are best, with those weights in the model.
  virtual void evaluated(const EvalRecord& /*record*/) {}
  /// What the model writes after an evaluation.
  virtual std::vector<SampleRecord> samples(std::int64_t /*step*/) { return {}; }

  /// A JSON object of what a run may not change when it goes on, by the keys of its configuration.
  virtual std::string settings() const { return "{}"; }
  /// Of settings that a checkpoint of an earlier version does not hold, those that it ran with.
  virtual std::string earlier_settings() const { return "{}"; }
  /// A JSON object of what the task needs to go on, beside tensors, optimizer and progress.
  virtual std::string state() const { return "{}"; }
  /// Adds the tensors that the task needs to go on. Here: "weights", of every parameter.
  virtual void save(Checkpoint& checkpoint);
  /// Writes a checkpoint, whose tensors are copies on the host; another thread may call it while steps run.
  virtual std::string write(const CheckpointDirectory& directory, std::int64_t step,
                            const Checkpoint& checkpoint) const;
  /// Puts the model and the task where they were. The optimizer has its state already.
  virtual void restore(const SavedCheckpoint& saved, TrainProgress& progress);
};

/// InvalidConfig that names the first key of `now` which `begun` has another value of, with both values.
/// `earlier` tells the values of keys that `begun` lacks; one that both lack is not compared. All are JSON
/// objects; `place` is where the run was begun.
void check_same_settings(const std::string& begun, const std::string& now, const std::string& earlier,
                         const std::string& place);

}  // namespace ingot
