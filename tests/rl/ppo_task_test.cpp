#include "ingot/rl/ppo_task.h"

#include <cmath>
#include <map>

#include "tests/rl/games/cart_pole.h"
#include "tests/rl/games/kuhn_poker.h"
#include "tests/rl/small_network.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/train/trainer.h"

namespace ingot {
namespace {

using test::CartPole;
using test::KuhnPoker;
using test::SmallNetwork;

// Of networks this small threads only wait for each other, long where other processes run.
const bool kOneThread = (set_num_threads(1), true);

// All that a run of PPO holds.
template <class G>
struct Learner {
  Learner(std::size_t games, const PpoOptions& options, std::int64_t hidden, std::uint64_t seed = 5)
      : environment(games, seed), network(G::spec(), hidden), task(environment, network, options) {}
  std::map<std::string, std::vector<float>> weights() {
    std::map<std::string, std::vector<float>> all;
    for (const auto& [name, parameter] : named_parameters(network.module()))
      all[name] = parameter->value.detach().template to_vector<float>();
    return all;
  }
  GameBatch<G> environment;
  SmallNetwork network;
  PpoTask task;
};

TEST(PpoTask, LearnsToBalanceACartPole) {
  const PpoOptions options{
      .rollout_steps = 32,
      .minibatch = 256,
      .epochs = 10,
      .advantage = {.gamma = 0.98, .lambda = 0.8},
      .loss = {.entropy = 0},
      .final_entropy = 0,
      .optimizer = {
          .name = "adam", .learning_rate = 2e-3, .weight_decay = 0, .epsilon = 1e-5, .max_grad_norm = 0.5}};
  Learner<CartPole> run(8, options, 32);
  Trainer trainer(run.task, {.total_steps = 800});
  double first = 0, best = 0;
  while (trainer.step()) {
    if (run.task.health().games > 0 && first == 0) first = run.task.health().mean_return;
    best = std::max(best, run.task.health().mean_return);
    if (best > 195) break;
  }
  EXPECT_LT(first, 60);  // a random policy's games last about 22 steps
  EXPECT_GT(best, 195);  // Barto's measure of a solved one
}

test::KuhnPolicy kuhn_policy(SmallNetwork& network) {
  const NoGrad no_grad;
  std::vector<float> x(12 * 7);
  for (int card = 0; card < 3; ++card)
    for (int place = 0; place < 4; ++place)
      KuhnPoker::observe(card, place, std::span(x).subspan((card * 4 + place) * 7, 7));
  const std::vector<float> logits = network(Tensor::from(x, {12, 7})).logits.to_vector<float>();
  test::KuhnPolicy policy{};
  for (int i = 0; i < 12; ++i) policy[i / 4][i % 4] = 1 / (1 + std::exp(logits[i * 2] - logits[i * 2 + 1]));
  return policy;
}

TEST(KuhnPoker, BestResponsesAreExact) {
  // Kuhn's equilibrium for a third as alpha: the first player loses 1/18, and nobody gains by deviating.
  const double a = 1.0 / 3;
  const test::KuhnPolicy equilibrium = {{{a, 0, 1.0 / 3, 0}, {0, 0, 1.0 / 3, a + 1.0 / 3}, {3 * a, 1, 1, 1}}};
  test::KuhnPolicy both = equilibrium;
  both[0][1] = 1.0 / 3;  // the second player bluffs with the lowest card,
  both[0][2] = 0;        // and never calls with it
  EXPECT_NEAR(test::kuhn_value(both, both), -1.0 / 18, 1e-12);
  EXPECT_NEAR(test::kuhn_exploitability(both), 0, 1e-12);
  EXPECT_NEAR(test::kuhn_exploitability({{{.5, .5, .5, .5}, {.5, .5, .5, .5}, {.5, .5, .5, .5}}}), 11.0 / 12,
              1e-12);
}

TEST(PpoTask, SelfPlayInKuhnPokerComesNearAnEquilibrium) {
  // The last policy of self-play circles the equilibrium; the average of many comes near it.
  const PpoOptions options{
      .rollout_steps = 8,
      .minibatch = 2048,
      .epochs = 1,
      .advantage = {.gamma = 1, .lambda = 1},
      .loss = {.entropy = 0.2},
      .normalize_advantages = false,
      .optimizer = {
          .name = "adam", .learning_rate = 5e-3, .weight_decay = 0, .epsilon = 1e-5, .max_grad_norm = 0.5}};
  Learner<KuhnPoker> run(128, options, 16);
  Trainer trainer(run.task, {.total_steps = 400});
  test::KuhnPolicy average{};
  int policies = 0;
  while (trainer.step()) {
    if (trainer.progress().step < 200 || trainer.progress().step % 2 != 0) continue;
    const test::KuhnPolicy now = kuhn_policy(run.network);
    ++policies;
    for (int card = 0; card < 3; ++card)
      for (int place = 0; place < 4; ++place)
        average[card][place] += (now[card][place] - average[card][place]) / policies;
  }
  EXPECT_LT(test::kuhn_exploitability(average), 0.2);  // of 0.917 for a random policy
}

PpoOptions short_options() {
  return {.rollout_steps = 16,
          .minibatch = 24,
          .epochs = 2,
          .anneal_steps = 20,
          .target_kl = 0.02,
          .optimizer = {.name = "adam", .learning_rate = 5e-3, .weight_decay = 0, .max_grad_norm = 0.5}};
}

TEST(PpoTask, SameSeedsGiveTheSameBitsAndOthersDoNot) {
  const auto weights = [](std::uint64_t seed) {
    Learner<KuhnPoker> run(5, short_options(), 8, seed);
    Trainer(run.task, {.total_steps = 12}).run();
    return run.weights();
  };
  EXPECT_EQ(weights(1), weights(1));
  EXPECT_NE(weights(1), weights(2));
}

TEST(PpoTask, ResumesWithTheSameBitsFromAnyStep) {
  Learner<CartPole> whole(5, short_options(), 8);
  Trainer(whole.task, {.total_steps = 16}).run();
  for (std::int64_t killed_after = 1; killed_after <= 12; ++killed_after) {
    const test::TemporaryDirectory directory;
    const CheckpointDirectory checkpoints(directory.at("run"));
    {
      Learner<CartPole> first(5, short_options(), 8);
      Trainer killed(first.task, {.total_steps = 16, .checkpoints = checkpoints, .save_steps = killed_after});
      for (std::int64_t i = 0; i < killed_after; ++i) killed.step();
    }
    Learner<CartPole> second(5, short_options(), 8);
    Trainer resumed(second.task, {.total_steps = 16});
    resumed.resume(*checkpoints.newest());
    ASSERT_EQ(resumed.progress().step, killed_after);
    resumed.run();
    EXPECT_EQ(second.weights(), whole.weights()) << killed_after;
    EXPECT_EQ(second.environment.state(), whole.environment.state()) << killed_after;
    EXPECT_EQ(second.task.health().games, whole.task.health().games) << killed_after;
  }
}

TEST(PpoTask, ARunOfAnotherNumberOfGamesIsNamed) {
  const test::TemporaryDirectory directory;
  const TrainerOptions options{.total_steps = 2, .checkpoints = CheckpointDirectory(directory.at("run"))};
  Learner<CartPole> first(5, short_options(), 8);
  Trainer(first.task, options).run();
  Learner<CartPole> second(6, short_options(), 8);
  Trainer resumed(second.task, options);
  const std::string message =
      test::message_of<InvalidConfig>([&] { resumed.resume(*options.checkpoints->newest()); });
  EXPECT_NE(message.find("games: is 6, but"), std::string::npos) << message;
}

TEST(PpoTask, ALargeChangeOfThePolicyEndsTheRolloutsLearning) {
  PpoOptions options = short_options();
  options.optimizer.learning_rate = 0.5;
  Learner<CartPole> run(5, options, 8), patient(
                                            5,
                                            [&] {
                                              PpoOptions all = options;
                                              all.target_kl = 0;
                                              return all;
                                            }(),
                                            8);
  Trainer(run.task, {.total_steps = 6}).run();
  Trainer(patient.task, {.total_steps = 6}).run();
  EXPECT_EQ(patient.task.health().rollouts, 1);
  EXPECT_GT(run.task.health().rollouts, 1);
}

TEST(PpoTask, TooShortARolloutSaysWhatToChange) {
  PpoOptions options = short_options();
  options.rollout_steps = 1;
  Learner<KuhnPoker> run(2, options, 8);
  const std::string message = test::message_of<InvalidConfig>([&] { run.task.gradients(0, {}); });
  EXPECT_NE(message.find("rollout_steps"), std::string::npos) << message;
}

}  // namespace
}  // namespace ingot
