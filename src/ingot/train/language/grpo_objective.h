#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ingot/train/language/answer_batch.h"
#include "ingot/train/language/grpo_loss.h"
#include "ingot/train/language/objective.h"

namespace ingot {

/// Group relative policy optimisation: each step the model, adapters and all, answers some prompts several
/// times; rewards score the answers; what is better than the others to its prompt becomes more likely. Ranks
/// take turns with the micro-batches, whose answers they write, score and learn from. Where the answers of a
/// step cannot be scored, nothing has changed on any rank (StepRefused).
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
  using Answers = std::map<std::size_t, Answer>;  // by number among those of all ranks: this rank's
  // What every rank knows of all answers.
  struct Scored {
    std::vector<std::vector<double>> scores;  // of each reward
    std::vector<double> lengths;              // in tokens
    std::vector<bool> ended;
  };
  Prompts next_prompts(data::DataState& position) const;
  /// Of those prompts whose turn in blocks of `block` is this rank's.
  Answers answer(const Prompts& prompts, std::size_t block, std::uint64_t stream) const;
  Scored score(const Prompts& prompts, const Answers& answers, const std::string& when) const;
  std::vector<std::vector<double>> score_own(const Prompts& prompts, const Answers& answers,
                                             const std::string& when) const;
  Tensor learn(const Answers& answers, const Scored& all, const GroupAdvantages& advantages,
               std::int64_t step);
  GrpoLoss learn_batch(const Answers& answers, std::size_t first, const GroupAdvantages& advantages,
                       GrpoBatch part) const;
  void measure(const Scored& all, const GroupAdvantages& advantages);
  bool counts(bool ended) const { return ended || !grpo_.mask_truncated_completions; }

  const TrainConfig& config_;
  const GrpoConfig& grpo_;
  const TrainingData& data_;
  LanguageModel& model_;
  const text::Tokenizer& tokenizer_;
  const ReferenceModel* reference_;
  TrainOptimizer& optimizer_;
  dist::Communicator& communicator_;
  std::unique_ptr<DataParallel> parallel_;  // null: gradients add up as they come
  std::vector<std::unique_ptr<Reward>> rewards_;
  std::vector<std::int32_t> end_tokens_;
  data::DataState position_;          // behind the last step
  std::deque<NamedValues> measured_;  // by the host, of the steps that were not read yet
  NamedValues evaluated_;
};

}  // namespace ingot
