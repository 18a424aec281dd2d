#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "ingot/train/language/answer_batch.h"
#include "ingot/train/language/grpo_loss.h"
#include "ingot/train/language/objective.h"

namespace ingot {

/// Group relative policy optimisation in one process: each step the model, adapters and all, answers some
/// prompts several times; rewards score the answers; what is better than the others to its prompt becomes
/// more likely. Where the answers of a step cannot be scored, nothing has changed (StepRefused).
class GrpoObjective : public Objective {
 public:
  explicit GrpoObjective(const ObjectiveParts& parts);

  StepWork gradients(std::int64_t step) override;
  void read(std::span<const float> metrics, StepRecord& record) override;
  StepSize step_size() const override { return {}; }  // how long answers are is not known before
  /// The mean reward of answers to the validation prompts, negated.
  std::optional<double> evaluate() override;
  void read_evaluation(EvalRecord& record) const override { record.values = evaluated_; }
  data::DataState position() const override { return position_; }
  void restore(const data::DataState& position) override { position_ = position; }

 private:
  using Prompts = std::vector<const data::Prompt*>;  // one for each answer
  struct Answer {
    data::PromptedAnswer sequence;
    std::string text;
    bool ended = false;  // by a token that ends an answer
  };
  Prompts next_prompts(data::DataState& position) const;
  std::vector<Answer> answer(const Prompts& prompts, std::uint64_t stream) const;
  std::vector<std::vector<double>> score(const Prompts& prompts, const std::vector<Answer>& answers,
                                         const std::string& when) const;
  Tensor learn(const std::vector<Answer>& answers, const GroupAdvantages& advantages);
  void measure(const std::vector<Answer>& answers, const std::vector<std::vector<double>>& scores,
               const GroupAdvantages& advantages);

  const TrainConfig& config_;
  const GrpoConfig& grpo_;
  const TrainingData& data_;
  LanguageModel& model_;
  const text::Tokenizer& tokenizer_;
  const ReferenceModel* reference_;
  TrainOptimizer& optimizer_;
  std::vector<std::unique_ptr<Reward>> rewards_;
  std::vector<std::int32_t> end_tokens_;
  data::DataState position_;          // behind the last step
  std::deque<NamedValues> measured_;  // by the host, of the steps that were not read yet
  NamedValues evaluated_;
};

}  // namespace ingot
