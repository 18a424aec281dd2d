#include "ingot/rl/ppo_loss.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/base/rng.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/rl/masked_policy.h"

namespace ingot {
namespace {

constexpr std::int64_t kBatch = 6, kActions = 5;

struct Example {
  std::vector<float> logits, legal, old, advantage, target, value, anchor;
  std::vector<std::int64_t> action;

  Example() {
    for (int i = 0; i < kBatch * kActions; ++i) {
      logits.push_back(static_cast<float>(2 * std::sin(i * 1.7)));
      legal.push_back(i % kActions == i % 3 ? 0.0F : 1.0F);
    }
    for (int i = 0; i < kBatch; ++i) {
      int a = i % kActions;
      while (legal[i * kActions + a] == 0) a = (a + 1) % kActions;
      action.push_back(a);
      old.push_back(static_cast<float>(-1.2 - 0.3 * std::cos(i * 2.1)));
      advantage.push_back(static_cast<float>(std::sin(i * 3.3)));
      target.push_back(static_cast<float>(std::cos(i)));
      value.push_back(static_cast<float>(0.3 * i));
      for (int j = 0; j < kActions; ++j) anchor.push_back(static_cast<float>(-1.5 + 0.1 * j));
    }
  }
  PpoBatch batch() const {
    return {.legal = Tensor::from(legal, {kBatch, kActions}),
            .action = Tensor::from(action, {kBatch}),
            .log_probability = Tensor::from(old, {kBatch}),
            .advantage = Tensor::from(advantage, {kBatch}),
            .target = Tensor::from(target, {kBatch}),
            .anchor = Tensor::from(anchor, {kBatch, kActions})};
  }
};

// The whole loss in double, from the papers' formulas, as a function of the logits.
struct Reference {
  double policy = 0, value = 0, entropy = 0, kl = 0, clipped = 0, anchor = 0;
  double total(const PpoCoefficients& c) const {
    return policy + c.value * value - c.entropy * entropy + c.anchor * anchor;
  }
};
Reference reference(const Example& e, const std::vector<double>& logits, const PpoCoefficients& c) {
  Reference r;
  for (int i = 0; i < kBatch; ++i) {
    double total = 0;
    const auto at = [&](int j) { return i * kActions + j; };
    for (int j = 0; j < kActions; ++j) total += e.legal[at(j)] != 0 ? std::exp(logits[at(j)]) : 0;
    const auto log_p = [&](int j) { return logits[at(j)] - std::log(total); };
    for (int j = 0; j < kActions; ++j) {
      if (e.legal[at(j)] == 0) continue;
      const double p = std::exp(log_p(j));
      r.entropy -= p * log_p(j) / kBatch;
      r.anchor += p * (log_p(j) - e.anchor[at(j)]) / kBatch;
    }
    const double log_ratio = log_p(static_cast<int>(e.action[i])) - e.old[i], ratio = std::exp(log_ratio);
    const double limited = std::min(std::max(ratio, 1 - c.clip), 1 + c.clip);
    r.policy -= std::min(ratio * e.advantage[i], limited * e.advantage[i]) / kBatch;
    r.value += 0.5 * (e.value[i] - e.target[i]) * (e.value[i] - e.target[i]) / kBatch;
    r.kl += (ratio - 1 - log_ratio) / kBatch;
    r.clipped += (limited != ratio ? 1.0 : 0.0) / kBatch;
  }
  return r;
}

TEST(PpoLoss, EveryPartAndTheGradientAreThoseOfTheFormulas) {
  const Example e;
  const PpoCoefficients c{.clip = 0.2, .value = 0.7, .entropy = 0.03, .anchor = 0.1};
  Tensor logits = Tensor::from(e.logits, {kBatch, kActions}), value = Tensor::from(e.value, {kBatch});
  logits.set_requires_grad(true);
  value.set_requires_grad(true);
  const PpoLoss found = ppo_loss(logits, value, e.batch(), c);
  std::vector<double> x(e.logits.begin(), e.logits.end());
  const Reference r = reference(e, x, c);
  EXPECT_NEAR(found.policy.item(), r.policy, 1e-6);
  EXPECT_NEAR(found.value.item(), r.value, 1e-6);
  EXPECT_NEAR(found.entropy.item(), r.entropy, 1e-6);
  EXPECT_NEAR(found.kl.item(), r.kl, 1e-6);
  EXPECT_NEAR(found.clipped.item(), r.clipped, 1e-6);
  EXPECT_NEAR(found.anchor.item(), r.anchor, 1e-6);
  EXPECT_NEAR(found.total.item(), r.total(c), 1e-6);
  EXPECT_GT(r.clipped, 0);
  EXPECT_LT(r.clipped, 1);

  backward(found.total);
  const std::vector<float> gradient = logits.grad().to_vector<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double saved = x[i];
    x[i] = saved + 1e-5;
    const double above = reference(e, x, c).total(c);
    x[i] = saved - 1e-5;
    const double below = reference(e, x, c).total(c);
    x[i] = saved;
    EXPECT_NEAR(gradient[i], (above - below) / 2e-5, 1e-6) << i;
    if (e.legal[i] == 0) EXPECT_EQ(gradient[i], 0) << i;
  }
}

// KL of the policies softened by 3, nine times: written out over the legal actions.
TEST(PpoLoss, ATemperatureSoftensBothPoliciesOfTheAnchorsKl) {
  const Example e;
  constexpr double kTemperature = 3;
  const auto soft = [&](const std::vector<float>& x, int row) {
    std::vector<double> log_p;
    log_p.reserve(kActions);
    double total = 0;
    for (int j = 0; j < kActions; ++j) {
      log_p.push_back(static_cast<double>(x[row * kActions + j]) / kTemperature);
      total += e.legal[row * kActions + j] != 0 ? std::exp(log_p.back()) : 0;
    }
    for (double& one : log_p) one -= std::log(total);
    return log_p;
  };
  double expected = 0;
  for (int i = 0; i < kBatch; ++i) {
    const std::vector<double> own = soft(e.logits, i), anchor = soft(e.anchor, i);
    for (int j = 0; j < kActions; ++j)
      if (e.legal[i * kActions + j] != 0) expected += std::exp(own[j]) * (own[j] - anchor[j]) * 9 / kBatch;
  }
  const Tensor logits = Tensor::from(e.logits, {kBatch, kActions}), value = Tensor::from(e.value, {kBatch});
  const PpoLoss found =
      ppo_loss(logits, value, e.batch(), {.anchor = 0.1, .anchor_temperature = kTemperature});
  EXPECT_NEAR(found.anchor.item(), expected, 1e-5);
  const PpoLoss without = ppo_loss(logits, value, e.batch(), {.anchor = 0});
  EXPECT_NEAR(found.total.item(), without.total.item() + 0.1 * expected, 1e-5);
}

TEST(MaskedPolicy, NeverTakesAnIllegalActionAndKeepsTheShares) {
  const std::vector<float> legal = {0, 1, 0, 1, 1, 0};
  const Tensor log_all = masked_log_softmax(Tensor::from(std::vector<float>{50, 1, 9, 0, -200, 80}, {1, 6}),
                                            Tensor::from(legal, {1, 6}));
  const std::vector<float> log_p = log_all.to_vector<float>();
  std::vector<int> taken(6);
  Rng random(1);
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i) ++taken[sample_action(log_p, legal, random.uniform_double())];
  for (const double edge : {0.0, 0.99999999, 1.0}) ++taken[sample_action(log_p, legal, edge)];
  EXPECT_EQ(taken[0] + taken[2] + taken[5], 0);
  EXPECT_NEAR(taken[1] / double{kDraws}, std::exp(1.0) / (1 + std::exp(1.0)), 0.005);
}

TEST(MaskedPolicy, ALoneLegalActionIsTakenWhateverItsLogit) {
  const std::vector<float> legal = {0, 0, 1}, logits = {3e8F, 1e8F, -3e8F};
  const Tensor log_all = masked_log_softmax(Tensor::from(logits, {1, 3}), Tensor::from(legal, {1, 3}));
  EXPECT_EQ(sample_action(log_all.to_vector<float>(), legal, 0.7), 2);
  EXPECT_THROW(sample_action(log_all.to_vector<float>(), std::vector<float>(legal.size(), 0.0F), 0.5), Error);
}

TEST(MaskedPolicy, LogitsOfIllegalActionsChangeNothing) {
  const Tensor legal = Tensor::from(std::vector<float>{1, 0, 1}, {1, 3});
  const auto gradients_beside = [&](float illegal) {
    Tensor logits = Tensor::from(std::vector<float>{2, illegal, 1}, {1, 3});
    logits.set_requires_grad(true);
    const Tensor log_all = masked_log_softmax(logits, legal);
    backward(sum(exp(log_all) * log_all));  // minus the entropy
    std::vector<float> all = exp(log_all).detach().to_vector<float>();
    const std::vector<float> gradient = logits.grad().to_vector<float>();
    all.insert(all.end(), gradient.begin(), gradient.end());
    return all;
  };
  const std::vector<float> usual = gradients_beside(0);
  EXPECT_NEAR(usual[0], 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_EQ(usual[1], 0);
  EXPECT_EQ(usual[4], 0);
  for (const float illegal : {3e9F, -3e9F, std::numeric_limits<float>::infinity(), NAN})
    EXPECT_EQ(gradients_beside(illegal), usual) << illegal;
}

TEST(MaskedPolicy, APolicyThatIsNotANumberIsNamed) {
  EXPECT_THROW(sample_action(std::vector<float>{0, NAN}, std::vector<float>{0, 1}, 0.5), NonFinite);
}

}  // namespace
}  // namespace ingot
