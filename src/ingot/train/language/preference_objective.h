#pragma once

#include <memory>
#include <vector>

#include "ingot/train/language/objective.h"
#include "ingot/train/language/preference_pass.h"

namespace ingot {

/// Pairs of answers (DPO, IPO, ORPO, SimPO) or single ones with a verdict (KTO): PreferenceLoss of each
/// micro-batch of so many rows, averaged over those of a step. Ranks take turns with the micro-batches.
class PreferenceObjective : public Objective {
 public:
  explicit PreferenceObjective(const ObjectiveParts& parts);

  StepWork gradients(std::int64_t step, const StopCheck& stops) override;
  void read(std::span<const float> metrics, StepRecord& record) override;
  StepSize step_size() const override;
  std::optional<double> evaluate(const StopCheck& stops) override;
  void read_evaluation(EvalRecord& record) const override { record.values = evaluated_; }
  data::DataState position() const override { return position_; }
  void restore(const data::DataState& position) override { position_ = position; }

 private:
  using Rows = PreferencePass::Rows;
  Rows next_rows();
  Rows own_rows();
  bool is_own(std::int64_t micro_batch) const;
  void learn_names(const PreferenceLoss& result);
  void evaluate_round(std::vector<Rows>& round, std::vector<std::vector<float>>& values);
  NamedValues metrics_of(std::span<const double> means) const;

  const TrainConfig& config_;
  const TrainingData& data_;
  LanguageModel& model_;
  TrainOptimizer& optimizer_;
  dist::Communicator& communicator_;
  PreferencePass pass_;
  std::unique_ptr<DataParallel> parallel_;  // null: gradients add up as they come
  data::DataState position_;                // behind the last step
  std::vector<std::string> names_;          // of the metrics
  NamedValues evaluated_;
};

}  // namespace ingot
