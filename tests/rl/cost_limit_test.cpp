#include "ingot/rl/cost_limit.h"

#include <cmath>

#include "tests/rl/small_network.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/mahjong/player.h"
#include "ingot/rl/mahjong_game.h"
#include "ingot/rl/ppo_task.h"
#include "ingot/train/trainer.h"

namespace ingot {
namespace {

// Written out from Stooke and others 2020, algorithm 2, with the sum's upper end.
TEST(CostLimit, FollowsThePaperStepByStep) {
  const CostLimitOptions o{
      .target = 0.12, .proportional = 0.1, .integral = 0.02, .derivative = 0.5, .most = 0.05};
  CostLimit limit(o);
  double sum = 0, last = -1;
  for (const double rate : {0.2, 0.3, 0.25, 0.1, 0.05, 0.05, 0.9, 0.95, 1.0, 0.1, 0.13}) {
    limit.measure(rate);
    sum = std::max(0.0, sum + rate - 0.12);
    const double rise = last < 0 ? 0 : std::max(0.0, rate - last);
    last = rate;
    const double expected = std::min(0.05, std::max(0.0, 0.1 * (rate - 0.12) + 0.02 * sum + 0.5 * rise));
    sum = std::min(sum, 0.05 / 0.02);
    EXPECT_DOUBLE_EQ(limit.multiplier(), expected) << rate;
  }
  EXPECT_THROW(CostLimit({.target = -1}), InvalidConfig);
  EXPECT_THROW(CostLimit({.target = 0.1, .most = 0}), InvalidConfig);
}

// One decision: 1 pays twice as much as 0, and costs.
struct Gamble {
  std::int32_t chosen;
  static EnvironmentSpec spec() { return {.players = 1, .actions = 2, .observation = {1}}; }
  void begin(Rng&) { chosen = 0; }
  int player() const { return 0; }
  void observe(std::span<float> out) const { out[0] = 1; }
  void legal(std::span<float> out) const { out[0] = out[1] = 1; }
  bool act(std::int32_t action, std::span<float> rewards) {
    chosen = action;
    rewards[0] = action == 1 ? 1.0F : 0.5F;
    return true;
  }
  void last_costs(std::span<float> costs, float& occasions) const {
    costs[0] = static_cast<float>(chosen);
    occasions = 1;
  }
};

PpoOptions gambling(const CostLimitOptions& limit) {
  return {.rollout_steps = 4,
          .minibatch = 256,
          .epochs = 2,
          .advantage = {.gamma = 1, .lambda = 1},
          .loss = {.clip = 0.2, .entropy = 0.05},
          .final_entropy = 0.05,
          .normalize_advantages = false,
          .cost_limit = limit,
          .optimizer = {.name = "adam", .learning_rate = 1e-2, .weight_decay = 0, .max_grad_norm = 0.5}};
}

// The mean rate of costs in the second half of a run.
double rate_of(const CostLimitOptions& limit, double* multiplier = nullptr) {
  GameBatch<Gamble> games(64, 1);
  test::SmallNetwork network(Gamble::spec(), 8);
  PpoTask task(games, network, gambling(limit));
  Trainer trainer(task, {.total_steps = 600});
  double sum = 0;
  int count = 0;
  while (trainer.step())
    if (trainer.progress().step > 300) {
      sum += task.health().cost_rate;
      ++count;
    }
  if (multiplier != nullptr) *multiplier = task.health().cost_weight;
  return sum / count;
}

TEST(CostLimit, PpoKeepsCostsAtItsTarget) {
  double multiplier = 0;
  const CostLimitOptions limit{.target = 0.3, .proportional = 0.5, .integral = 0.02, .derivative = 0.1};
  EXPECT_NEAR(rate_of(limit, &multiplier), 0.3, 0.08);
  EXPECT_GT(multiplier, 0.2);  // what choice 1 pays more is 0.5
  EXPECT_GT(rate_of({.target = 1e-9, .proportional = 0, .integral = 0, .derivative = 0}), 0.9);
}

TEST(CostLimit, AResumedRunGoesOnWithTheSameMultiplier) {
  const CostLimitOptions limit{.target = 0.3, .proportional = 0.5, .integral = 0.02, .derivative = 0.1};
  const auto run = [&](std::int64_t steps, const std::string& directory, bool resume) {
    GameBatch<Gamble> games(16, 1);
    test::SmallNetwork network(Gamble::spec(), 8);
    PpoTask task(games, network, gambling(limit));
    Trainer trainer(task,
                    {.total_steps = 40, .checkpoints = CheckpointDirectory(directory), .save_steps = 20});
    if (resume) trainer.resume(CheckpointDirectory(directory).newest().value());
    while (trainer.progress().step < steps && trainer.step()) {
    }
    return task.health().cost_weight;
  };
  const test::TemporaryDirectory directory;
  const double whole = run(40, directory.at("whole"), false);
  run(20, directory.at("halves"), false);
  EXPECT_EQ(run(40, directory.at("halves"), true), whole);
  EXPECT_GT(whole, 0);
}

TEST(CostLimit, ARunThatBeganBeforeThereWereLimitsGoesOnWithoutOne) {
  const auto settings_of = [](const CostLimitOptions& limit) {
    GameBatch<Gamble> games(2, 1);
    test::SmallNetwork network(Gamble::spec(), 8);
    const PpoTask task(games, network, gambling(limit));
    return std::pair(task.settings(), task.earlier_settings());
  };
  const auto [now, earlier] = settings_of({});
  std::string begun = now;
  const std::size_t at = begun.find("\"cost_limit\"");
  ASSERT_NE(at, std::string::npos);
  begun.erase(at, begun.find("],", at) + 2 - at);
  EXPECT_NO_THROW(check_same_settings(begun, now, earlier, "run"));
  EXPECT_THROW(check_same_settings(begun, settings_of({.target = 0.1}).first, earlier, "run"), InvalidConfig);
}

TEST(CostLimit, AGameWithoutCostsIsRefused) {
  struct Plain : Gamble {
    void last_costs() const {}
  };
  GameBatch<Plain> games(2, 1);
  test::SmallNetwork network(Plain::spec(), 8);
  EXPECT_THROW(PpoTask(games, network, gambling({.target = 0.1})), InvalidConfig);
}

TEST(MahjongGame, DealingInCostsOneOfTheRoundsThatEnd) {
  constexpr std::size_t kGames = 24;
  GameBatch<MahjongGame> games(kGames, 3);
  BuiltInOpponent simple(games, mahjong::player_named("simple"));
  const auto size = static_cast<std::size_t>(games.spec().observation_size());
  std::vector<float> seen(kGames * size), legal(kGames * 46), rewards(kGames * 4);
  std::vector<std::uint8_t> ended(kGames);
  std::vector<std::size_t> all(kGames);
  for (std::size_t i = 0; i < kGames; ++i) all[i] = i;
  const std::vector<double> uniform(kGames, 0.5);
  double costs = 0, rounds = 0;
  for (int step = 0; step < 500; ++step) {
    games.step(simple.decide(games, {all, seen, legal, uniform}), rewards, ended);
    const Environment::Costs told = games.costs();
    for (std::size_t i = 0; i < kGames; ++i) {
      rounds += static_cast<double>(told.occasions[i]);
      ASSERT_TRUE(ended[i] == 0 || told.occasions[i] > 0);
      for (std::size_t p = 0; p < 4; ++p) {
        if (told.costs[4 * i + p] == 0) continue;
        costs += 1;
        ASSERT_LT(rewards[4 * i + p], 0);
        ASSERT_GT(told.occasions[i], 0);
      }
    }
  }
  EXPECT_GT(rounds, 100);
  EXPECT_NEAR(costs / rounds / 4, 0.148, 0.04);  // of the arena's 4000 games
}

}  // namespace
}  // namespace ingot
