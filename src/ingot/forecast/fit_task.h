#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ingot/base/stopwatch.h"
#include "ingot/forecast/batch_upload.h"
#include "ingot/forecast/fit.h"
#include "ingot/forecast/fit_checkpoint.h"
#include "ingot/train/data_parallel.h"
#include "ingot/train/task.h"

namespace ingot::forecast {

/// The fit of a network to training windows. An evaluation ends an epoch.
class FitTask : public TrainTask {
 public:
  /// All that is given outlives it.
  /// `ranks`: the processes that fit together; each takes a share of every batch. Null: this one alone.
  FitTask(const FitConfig& config, const SeriesTable& table, const DataSplit& parts, ForecastModel& model,
          dist::Communicator* ranks = nullptr);

  std::int64_t epoch_steps() const;
  std::int64_t total_steps() const { return config_.epochs * epoch_steps(); }
  const FitProgress& progress() const { return progress_; }
  /// Leaves the weights that config.keep asks for in the model.
  void keep_chosen_weights();

  ModuleRef model() override { return model_; }
  TrainOptimizer& optimizer() override { return optimizer_; }
  StepWork gradients(std::int64_t step, const StopCheck& stops) override;
  bool gradients_change_state() const override { return true; }  // batch norms' running statistics
  void read(std::span<const float> metrics, StepRecord& record) override;
  StepSize step_size() const override;
  std::optional<double> evaluate(const StopCheck& stops) override;
  void evaluated(const EvalRecord& record) override;
  std::int64_t zero_stage() const { return config_.zero_stage; }
  const FitIdentity& identity() const { return identity_; }
  std::string settings() const override { return identity_.config; }
  std::string earlier_settings() const override;
  std::string state() const override;
  void save(Checkpoint& checkpoint) override;
  void restore(const SavedCheckpoint& saved, TrainProgress& progress) override;

 private:
  std::int64_t pass_steps() const;
  std::vector<std::int64_t> windows_of(std::int64_t step) const;
  Tensor learn(std::span<const std::int64_t> windows, std::int64_t step);
  Tensor learn_together(std::span<const std::int64_t> windows, std::int64_t step);
  Tensor together(const Tensor& loss, const std::vector<double>& shares);
  double measured_by_all(double measured) const;

  const FitConfig& config_;
  const DataSplit& parts_;
  ForecastModel& model_;
  dist::Communicator* ranks_;
  std::string source_;  // of the table
  FitIdentity identity_;
  TrainOptimizer optimizer_;
  std::optional<DataParallel> parallel_;  // where there are ranks
  BatchUpload upload_;
  std::map<std::string, Tensor> best_;  // weights of progress_.best_epoch
  FitProgress progress_;
  Stopwatch in_epoch_;
};

}  // namespace ingot::forecast
