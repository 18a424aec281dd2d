#pragma once

#include "ingot/data/loader.h"
#include "ingot/train/language/gradient_step.h"
#include "ingot/train/language/objective.h"

namespace ingot {

/// The next token of text, chats and instructions: cross-entropy over what is not masked, or the distance
/// from a teacher there. Evaluations measure the cross-entropy.
class SupervisedObjective : public Objective {
 public:
  explicit SupervisedObjective(const ObjectiveParts& parts);

  StepWork gradients(std::int64_t step, const StopCheck& stops) override;
  void read(std::span<const float> metrics, StepRecord& record) override;
  StepSize step_size() const override;
  std::optional<double> evaluate(const StopCheck& stops) override;
  std::string loss_unit() const override { return "nats per token"; }
  std::optional<double> bigram_baseline() const override;
  data::DataState position() const override { return position_; }
  void restore(const data::DataState& position) override;

 private:
  const TrainConfig& config_;
  const TrainingData& data_;
  LanguageModel& model_;
  dist::Communicator& communicator_;
  data::DataLoader loader_;
  std::unique_ptr<Distillation> distillation_;  // null: no teacher
  GradientStep gradients_;
  data::DataState position_;  // behind the last step
  bool told_of_no_targets_ = false;
};

}  // namespace ingot
