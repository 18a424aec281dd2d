#include "ingot/train/language/preference_pass.h"

#include <utility>

#include "ingot/autograd/grad_mode.h"
#include "ingot/nn/with_values.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

constexpr std::int32_t kPadding = 0;  // a token that no loss reads

}  // namespace

PreferencePass::PreferencePass(const TrainConfig& config, const LanguageModel& model, ReferenceRun reference)
    : config_(config), model_(model), reference_(std::move(reference)) {}

AnswerBatch PreferencePass::batch(std::span<const data::PromptedAnswer* const> answers) const {
  return make_answer_batch(answers, kPadding, config_.sequence_len, model_.device());
}

Tensor PreferencePass::log_probs(const LanguageModel& model, const AnswerBatch& batch) const {
  return sum(answer_log_probs(model, hidden_of(model, batch), batch), {1});
}

PreferenceLoss PreferencePass::loss(const Rows& rows) const {
  return rows.front().rejected.has_value() ? loss_of_pairs(rows) : loss_of_verdicts(rows);
}

// Chosen and rejected answers go through the model together.
PreferenceLoss PreferencePass::loss_of_pairs(const Rows& rows) const {
  const auto count = std::ssize(rows);
  std::vector<const data::PromptedAnswer*> answers;
  answers.reserve(2 * rows.size());
  for (const data::Preference& row : rows) answers.push_back(&row.chosen);
  for (const data::Preference& row : rows) answers.push_back(&*row.rejected);
  const AnswerBatch all = batch(answers);
  PairLogProbs pairs;
  if (reference_ != nullptr)
    reference_([&](const LanguageModel& reference) {
      const Tensor before = log_probs(reference, all);
      pairs.reference_chosen = narrow(before, 0, 0, count);
      pairs.reference_rejected = narrow(before, 0, count, count);
    });
  const Tensor hidden = hidden_of(model_, all);
  const Tensor sums = sum(answer_log_probs(model_, hidden, all), {1});
  pairs.chosen = narrow(sums, 0, 0, count);
  pairs.rejected = narrow(sums, 0, count, count);
  pairs.chosen_length = narrow(all.lengths, 0, 0, count);
  pairs.rejected_length = narrow(all.lengths, 0, count, count);
  if (config_.objective.kind == ObjectiveKind::simpo)
    pairs.nll = -(sum(pairs.chosen) / sum(pairs.chosen_length));
  if (config_.objective.kind == ObjectiveKind::orpo) {  // of the prompt, too
    const Tensor states = narrow(hidden, 0, 0, count);
    LinearCrossEntropyLoss options;
    options.softcap = static_cast<float>(model_.config.final_logit_softcapping);
    pairs.nll = linear_cross_entropy(model_.head_input(states), model_.head_matrix(states.dtype()),
                                     narrow(all.all_targets, 0, 0, count), options);
  }
  return pair_loss(config_.objective, pairs);
}

PreferenceLoss PreferencePass::loss_of_verdicts(const Rows& rows) const {
  std::vector<const data::PromptedAnswer*> answers, mismatched;
  std::vector<data::PromptedAnswer> others;
  std::vector<float> desirable;
  answers.reserve(rows.size());
  mismatched.reserve(rows.size());
  others.reserve(rows.size());
  desirable.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const data::PromptedAnswer& answer = rows[i].chosen;
    const data::PromptedAnswer& before = rows[(i + rows.size() - 1) % rows.size()].chosen;
    data::PromptedAnswer other{.prompt = answer.prompt};
    other.tokens.assign(answer.tokens.begin(), answer.tokens.begin() + answer.prompt);
    other.tokens.insert(other.tokens.end(), before.tokens.begin() + before.prompt, before.tokens.end());
    others.push_back(std::move(other));
    desirable.push_back(rows[i].desirable ? 1.0F : 0.0F);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    answers.push_back(&rows[i].chosen);
    mismatched.push_back(&others[i]);
  }
  const AnswerBatch right = batch(answers), wrong = batch(mismatched);
  VerdictLogProbs result;
  result.desirable = to(Tensor::from(desirable, {std::ssize(desirable)}), model_.device());
  reference_([&](const LanguageModel& reference) {
    result.reference = log_probs(reference, right);
    result.reference_mismatched = log_probs(reference, wrong);
  });
  {
    const NoGrad no_grad;
    const WithValues with_values(config_.adapter.quantizes_base());
    result.mismatched = log_probs(model_, wrong);
  }
  result.answers = log_probs(model_, right);
  return verdict_loss(config_.objective, result);
}

}  // namespace ingot
