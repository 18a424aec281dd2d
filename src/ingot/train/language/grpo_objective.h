#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ingot/train/language/answer_batch.h"
#include "ingot/train/language/grpo_rollout.h"
#include "ingot/train/language/objective.h"

namespace ingot {

/// Group relative policy optimization: the model, adapters and all, answers some prompts several times;
/// rewards score the answers; what is better than the others to its prompt becomes more likely, in one step
/// or in num_iterations of them. Ranks
/// take turns with the micro-batches, whose answers they write, score and learn from. Where the answers of a
/// step cannot be scored, nothing has changed on any rank (StepRefused).
class GrpoObjective : public Objective {
 public:
  explicit GrpoObjective(const ObjectiveParts& parts);

  StepWork gradients(std::int64_t step, const StopCheck& stops) override;
  void read(std::span<const float> metrics, StepRecord& record) override;
  StepSize step_size() const override { return {}; }  // how long answers are is not known before
  /// The mean reward of answers to the validation prompts, negated.
  std::optional<double> evaluate(const StopCheck& stops) override;
  void read_evaluation(EvalRecord& record) const override { record.values = evaluated_; }
  data::DataState position() const override { return position_; }
  void restore(const data::DataState& position) override { position_ = position; }
  /// The answers that further steps learn from.
  std::map<std::string, Tensor> state() const override;
  void load_state(const std::map<std::string, Tensor>& state) override;

 private:
  using Prompts = std::vector<const data::Prompt*>;   // one for each answer
  using Answers = std::map<std::size_t, GrpoAnswer>;  // by number among those of all ranks: this rank's
  using Scored = GrpoRollout::Scored;
  struct Learned {
    GrpoLoss loss;
    Tensor log_probs;
  };
  Prompts next_prompts(data::DataState& position) const;
  /// Of those prompts that belong to this rank, in blocks of `block`. `stops` is asked between the engine's
  /// steps.
  Answers answer(const Prompts& prompts, std::size_t block, std::uint64_t stream,
                 const StopCheck& stops) const;
  Scored score(const Prompts& prompts, const Answers& answers, const std::string& when) const;
  std::vector<std::vector<double>> score_own(const Prompts& prompts, const Answers& answers,
                                             const std::string& when) const;
  void write_answers(std::int64_t step, const StopCheck& stops);
  Tensor learn(GrpoRollout& rollout, std::int64_t step);
  Learned learn_batch(const GrpoRollout& rollout, std::size_t first, GrpoBatch part) const;
  std::int64_t answers_of_step() const;
  bool keeps_answers() const { return grpo_.num_iterations > 1; }
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
  data::DataState position_;  // behind the last step
  std::optional<GrpoRollout> rollout_;
  std::deque<NamedValues> measured_;  // by the host, of the steps that were not read yet
  double rollout_seconds_ = 0;        // of the answers that the next step is the first to learn from
  NamedValues evaluated_;
};

}  // namespace ingot
