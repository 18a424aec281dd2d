// PPO against PyTorch, update for update: tools/goldens/ppo_cartpole.py makes the file.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/rl/games/cart_pole.h"
#include "tests/rl/small_network.h"
#include "tests/support/source_dir.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/ops/cast.h"
#include "ingot/optim/schedule.h"
#include "ingot/rl/ppo_task.h"
#include "ingot/train/trainer.h"

namespace ingot {
namespace {

using test::CartPole;
using test::SmallNetwork;

// The weights that the script begins with, too.
void fill_with_sines(SmallNetwork& network) {
  const NoGrad no_grad;
  int number = 0;
  for (const auto& [name, parameter] : named_parameters(network.module())) {
    std::vector<float> values;
    values.reserve(static_cast<std::size_t>(parameter->value.numel()));
    for (std::int64_t k = 0; k < parameter->value.numel(); ++k)
      values.push_back(static_cast<float>(0.5 * std::sin(1.3 * static_cast<double>(k) + 2 * number)));
    copy_(parameter->value, Tensor::from(values, parameter->value.shape()));
    ++number;
  }
}

PpoOptions golden_options() {
  return {.rollout_steps = 33,
          .minibatch = 32,
          .epochs = 4,
          .advantage = {.gamma = 0.99, .lambda = 0.95},
          .loss = {.clip = 0.2, .value = 0.5, .entropy = 0.01},
          .optimizer = {.name = "adam",
                        .learning_rate = 5e-3,
                        .weight_decay = 0,
                        .epsilon = 1e-5,
                        .max_grad_norm = 0.5},
          .seed = 7};
}

TEST(PpoTask, LosesAndChangesWeightsAsPyTorchUpdateForUpdate) {
  const std::string path = test::source_dir() + "/tests/rl/goldens/ppo_cartpole.json";
  const auto golden = parse_json<nlohmann::json>(read_file(path), path);
  GameBatch<CartPole> games(4, 5);
  SmallNetwork network(CartPole::spec(), 8);
  fill_with_sines(network);
  PpoTask task(games, network, golden_options());
  Trainer trainer(task, {.total_steps = static_cast<std::int64_t>(golden.at("updates").size())});
  trainer.run();
  const auto& steps = trainer.history().steps();
  ASSERT_EQ(steps.size(), golden.at("updates").size());
  const std::vector<std::string> names = {"policy loss", "value loss", "entropy", "kl", "clip fraction"};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto expected = golden.at("updates")[i].get<std::vector<double>>();
    EXPECT_NEAR(steps[i].loss, expected[0], 2e-5 * (1 + std::abs(expected[0]))) << i;
    EXPECT_NEAR(steps[i].grad_norm, expected[6], 2e-5 * (1 + expected[6])) << i;
    for (std::size_t k = 0; k < names.size(); ++k) {
      const auto found =
          std::ranges::find(steps[i].values, names[k], [](const auto& value) { return value.first; });
      ASSERT_NE(found, steps[i].values.end()) << names[k];
      EXPECT_NEAR(found->second, expected[k + 1], 2e-5 * (1 + std::abs(expected[k + 1])))
          << names[k] << " " << i;
    }
  }
  for (const auto& [name, parameter] : named_parameters(network.module())) {
    const std::vector<float> found = parameter->value.detach().to_vector<float>();
    const auto expected = golden.at("parameters").at(name).get<std::vector<double>>();
    ASSERT_EQ(found.size(), expected.size()) << name;
    for (std::size_t k = 0; k < found.size(); ++k)
      EXPECT_NEAR(found[k], expected[k], 2e-5) << name << " " << k;
  }
}

// CleanRL's settings for CartPole, over 100 rollouts of 512 decisions; the mean return of games in the last
// fifth of them.
double return_in_cart_pole(std::uint64_t seed) {
  constexpr std::int64_t kRollouts = 100, kUpdates = 16;
  GameBatch<CartPole> games(4, seed);
  SmallNetwork network(CartPole::spec(), 64, seed);
  PpoTask task(games, network,
               {.rollout_steps = 129,  // the last one is not learned from
                .minibatch = 128,
                .epochs = 4,
                .advantage = {.gamma = 0.99, .lambda = 0.95},
                .loss = {.clip = 0.2, .value = 0.5, .entropy = 0.01},
                .schedule = schedule::Linear{.steps = kRollouts * kUpdates},
                .seed = seed});
  Trainer trainer(task, {.total_steps = kRollouts * kUpdates});
  double total = 0;
  int rollouts = 0;
  while (trainer.step()) {
    if (trainer.progress().step % kUpdates != 0 || task.health().rollouts <= 4 * kRollouts / 5) continue;
    total += task.health().mean_return;
    ++rollouts;
  }
  return total / rollouts;
}

// `tools/goldens/ppo_cartpole.py --curve 51200 4`, CleanRL's own formulas: 188 to 322, on average 228.
TEST(PpoTask, ReturnsInCartPoleAreThoseOfCleanRLAtEqualSteps) {
  const double reached = return_in_cart_pole(1);
  EXPECT_GT(reached, 188);
  EXPECT_LT(reached, 322);
}

}  // namespace
}  // namespace ingot
