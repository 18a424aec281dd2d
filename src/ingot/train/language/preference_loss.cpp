#include "ingot/train/language/preference_loss.h"

#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"

namespace ingot {
namespace {

Tensor log_sigmoid(const Tensor& x) { return -softplus(-x); }

// log(1 − eˣ) of x < 0, also near 0: with t = tanh(x/2), 1 − eˣ is −2t / (1 − t).
Tensor log_of_complement(const Tensor& x) {
  const Tensor t = tanh(x * 0.5);
  return log(t * -2.0) - log(1.0 - t);
}

// The loss of pairs whose better answer leads by `lead`, when a share `smoothing` of them is the wrong way
// round.
Tensor smoothed(const Tensor& lead, double smoothing) {
  const Tensor loss = -log_sigmoid(lead);
  return smoothing == 0 ? loss : loss * (1 - smoothing) - log_sigmoid(-lead) * smoothing;
}

// Pairs that are the wrong way round by chance, without the bias that this brings (Chowdhury et al. 2024).
Tensor robust(const Tensor& lead, double noise) {
  return (log_sigmoid(lead) * (noise - 1) + log_sigmoid(-lead) * noise) / (1 - 2 * noise);
}

struct Rewards {
  Tensor chosen, rejected;  // [pairs], detached
};

void add_metrics(PreferenceLoss& result, const Rewards& rewards, const PairLogProbs& pairs, bool averaged) {
  const Tensor better = to(greater(rewards.chosen, rewards.rejected), DType::f32);
  const auto logps = [&](const Tensor& sums, const Tensor& lengths) {
    return mean((averaged ? sums / lengths : sums).detach());
  };
  result.metrics = {{"rewards/accuracies", mean(better)},
                    {"rewards/margins", mean(rewards.chosen - rewards.rejected)},
                    {"rewards/chosen", mean(rewards.chosen)},
                    {"rewards/rejected", mean(rewards.rejected)},
                    {"logps/chosen", logps(pairs.chosen, pairs.chosen_length)},
                    {"logps/rejected", logps(pairs.rejected, pairs.rejected_length)}};
}

PreferenceLoss referenced_loss(const ObjectiveConfig& o, const PairLogProbs& p) {
  const Tensor chosen = p.chosen - p.reference_chosen, rejected = p.rejected - p.reference_rejected;
  PreferenceLoss result;
  if (o.kind == ObjectiveKind::ipo) {
    const Tensor lead = chosen / p.chosen_length - rejected / p.rejected_length;
    result.loss = mean(square(lead - 1 / (2 * o.beta)));
  } else {
    const Tensor lead = (chosen - rejected) * o.beta;
    result.loss = mean(o.dpo_loss == DpoLoss::hinge    ? relu(1.0 - lead)
                       : o.dpo_loss == DpoLoss::robust ? robust(lead, o.label_smoothing)
                                                       : smoothed(lead, o.label_smoothing));
  }
  add_metrics(result, {chosen.detach() * o.beta, rejected.detach() * o.beta}, p, false);
  return result;
}

// Of mean log-probabilities, without a reference.
PreferenceLoss averaged_loss(const ObjectiveConfig& o, const PairLogProbs& p) {
  const Tensor chosen = p.chosen / p.chosen_length, rejected = p.rejected / p.rejected_length;
  PreferenceLoss result;
  add_metrics(result, {chosen.detach() * o.beta, rejected.detach() * o.beta}, p, true);
  if (o.kind == ObjectiveKind::simpo) {
    result.loss = mean(smoothed((chosen - rejected) * o.beta - o.simpo_gamma, o.label_smoothing));
    if (o.cpo_alpha == 0) return result;
    result.loss = result.loss + p.nll * o.cpo_alpha;
  } else {
    const Tensor odds = (chosen - rejected) - (log_of_complement(chosen) - log_of_complement(rejected));
    const Tensor ratio = mean(log_sigmoid(odds));
    result.loss = p.nll - ratio * o.beta;
    result.metrics.emplace_back("log_odds_ratio", ratio.detach());
    result.metrics.emplace_back("log_odds_chosen", mean(odds.detach()));
  }
  result.metrics.emplace_back("nll_loss", p.nll.detach());
  return result;
}

}  // namespace

PreferenceLoss pair_loss(const ObjectiveConfig& objective, const PairLogProbs& pairs) {
  return objective.has_reference() ? referenced_loss(objective, pairs) : averaged_loss(objective, pairs);
}

PreferenceLoss verdict_loss(const ObjectiveConfig& o, const VerdictLogProbs& a) {
  const Tensor ratios = a.answers - a.reference;
  // How far the model has gone from the reference, by answers that do not belong to their prompts.
  const Tensor kl = clamp(mean((a.mismatched - a.reference_mismatched).detach()), 0, 1e30);
  const Tensor sign = a.desirable * 2.0 - 1.0, undesirable = 1.0 - a.desirable;
  const Tensor weight = a.desirable * o.desirable_weight + undesirable * o.undesirable_weight;
  PreferenceLoss result;
  result.loss = mean(weight * (1.0 - sigmoid(sign * (ratios - kl) * o.beta)));
  const Tensor rewards = ratios.detach() * o.beta, logps = a.answers.detach();
  result.metrics = {{"kl", kl},
                    {"count/chosen", sum(a.desirable)},
                    {"count/rejected", sum(undesirable)},
                    {"rewards/chosen", sum(rewards * a.desirable)},
                    {"rewards/rejected", sum(rewards * undesirable)},
                    {"logps/chosen", sum(logps * a.desirable)},
                    {"logps/rejected", sum(logps * undesirable)}};
  return result;
}

}  // namespace ingot
