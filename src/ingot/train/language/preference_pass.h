#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/data/preference.h"
#include "ingot/models/language/decoder.h"
#include "ingot/train/language/answer_batch.h"
#include "ingot/train/language/config.h"
#include "ingot/train/language/preference_loss.h"

namespace ingot {

/// Runs something with the model that training began from, as ReferenceModel::run does.
using ReferenceRun = std::function<void(FunctionRef<void(const LanguageModel&)>)>;

/// The passes over a micro-batch of preferences: of the model that trains, and of the reference.
class PreferencePass {
 public:
  using Rows = std::vector<data::Preference>;
  /// config and model outlive it. `reference`: empty where the objective has none.
  PreferencePass(const TrainConfig& config, const LanguageModel& model, ReferenceRun reference);

  /// Of pairs, or of verdicts where rows have no rejected answer.
  PreferenceLoss loss(const Rows& rows) const;

 private:
  PreferenceLoss loss_of_pairs(const Rows& rows) const;
  PreferenceLoss loss_of_verdicts(const Rows& rows) const;
  AnswerBatch batch(std::span<const data::PromptedAnswer* const> answers) const;
  Tensor log_probs(const LanguageModel& model, const AnswerBatch& batch) const;

  const TrainConfig& config_;
  const LanguageModel& model_;
  ReferenceRun reference_;
};

}  // namespace ingot
