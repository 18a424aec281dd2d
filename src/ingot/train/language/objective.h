#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ingot/data/loader.h"
#include "ingot/dist/communicator.h"
#include "ingot/models/language/decoder.h"
#include "ingot/train/data_parallel.h"
#include "ingot/train/language/config.h"
#include "ingot/train/language/dataset.h"
#include "ingot/train/language/reference.h"
#include "ingot/train/task.h"

namespace ingot {

/// What a LanguageTask learns from: the data of its steps, their losses and gradients.
class Objective {
 public:
  Objective() = default;
  virtual ~Objective() = default;
  Objective(const Objective&) = delete;
  Objective& operator=(const Objective&) = delete;

  /// TrainTask::gradients, read, step_size, evaluate and read_evaluation.
  virtual StepWork gradients(std::int64_t step, const StopCheck& stops) = 0;
  virtual void read(std::span<const float> metrics, StepRecord& record) = 0;
  virtual StepSize step_size() const = 0;
  virtual std::optional<double> evaluate(const StopCheck& stops) = 0;
  virtual void read_evaluation(EvalRecord& /*record*/) const {}

  /// What losses are in.
  virtual std::string loss_unit() const { return "loss"; }
  /// Of a bigram model on the same data, in the unit of the loss; nothing where that has no meaning.
  virtual std::optional<double> bigram_baseline() const { return std::nullopt; }

  /// Where the data stands behind the last step.
  virtual data::DataState position() const = 0;
  /// Goes on from there. The fingerprint is that of the same data.
  virtual void restore(const data::DataState& position) = 0;
  /// What else it needs to go on, on the host; every rank has the same.
  virtual std::map<std::string, Tensor> state() const { return {}; }
  virtual void load_state(const std::map<std::string, Tensor>& /*state*/) {}
};

/// What an objective works with. All of it outlives the objective.
struct ObjectiveParts {
  const TrainConfig& config;
  const TrainingData& data;
  LanguageModel& model;
  const text::Tokenizer& tokenizer;
  const ReferenceModel* reference;  ///< null where the objective has none
  TrainOptimizer& optimizer;
  dist::Communicator& communicator;
};

/// The one that config.objective names.
std::unique_ptr<Objective> make_objective(const ObjectiveParts& parts);

/// Sums the gradients of the optimizer's parameters over ranks, or micro-batch by micro-batch; null where one
/// process adds them up as they come.
std::unique_ptr<DataParallel> make_data_parallel(const TrainConfig& config, const TrainOptimizer& optimizer,
                                                 dist::Communicator& communicator);

/// Optimizer steps of so many ranks in an epoch of the data, not rounded.
double steps_per_epoch(const TrainConfig& config, const TrainingData& data, int ranks);
/// Throws InvalidConfig where there is less to learn from than so many ranks.
void check_rows_for(const TrainConfig& config, const TrainingData& data, int ranks);

}  // namespace ingot
