// Ranks that play and learn together: threads stand for them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/rl/games/kuhn_poker.h"
#include "tests/rl/mahjong_ppo_fixture.h"
#include "tests/rl/small_network.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thread_ranks.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/models/policy/rank_net.h"
#include "ingot/rl/game_share.h"
#include "ingot/rl/gathered_rows.h"
#include "ingot/rl/league.h"
#include "ingot/rl/ppo_task.h"
#include "ingot/train/trainer.h"

namespace ingot {
namespace {

using test::KuhnPoker;
using test::SmallNetwork;
using Weights = std::vector<float>;

// Of networks this small threads only wait for each other.
const bool kOneThreadEach = (set_num_threads(1), true);

constexpr std::int64_t kSteps = 8;

struct Learned {
  Weights weights;
  std::int64_t games = 0;
  double mean_return = 0, explained = 0, kl = 0;
};

// Of one rank: PPO in Kuhn poker with a league, up to `steps`, in a directory where it goes on.
Learned play(dist::Communicator& ranks, const std::string& directory, std::int64_t steps, bool resume) {
  const PpoOptions options{
      .rollout_steps = 12,
      .minibatch = 25,
      .epochs = 2,
      .target_kl = 0.02,
      .optimizer = {.name = "adam", .learning_rate = 5e-3, .weight_decay = 0, .max_grad_norm = 0.5}};
  GameBatch<KuhnPoker> games(game_share(7, ranks, "games"), 5);
  SmallNetwork network(KuhnPoker::spec(), 8);
  League league(games, {.past = 0.4, .past_selves = 2, .past_every = 1}, {},
                [] { return std::make_unique<SmallNetwork>(KuhnPoker::spec(), 8); });
  PpoTask task(games, network, options, nullptr, &league, &ranks);
  const CheckpointDirectory checkpoints(directory, {}, ranks.size() > 1 ? &ranks : nullptr);
  Trainer trainer(task, {.total_steps = steps, .checkpoints = checkpoints});
  if (resume) trainer.resume(checkpoints.newest().value());
  trainer.run();
  Learned run{.games = task.health().games,
              .mean_return = task.health().mean_return,
              .explained = task.health().explained_variance,
              .kl = task.health().kl};
  for (const Parameter* parameter : parameters(network.module())) {
    const Weights values = parameter->value.detach().to_vector<float>();
    run.weights.insert(run.weights.end(), values.begin(), values.end());
  }
  return run;
}

std::vector<Learned> play_on(int count, const std::string& directory, std::int64_t steps = kSteps,
                             bool resume = false) {
  std::vector<Learned> runs(static_cast<std::size_t>(count));
  test::ThreadRanks threads(count);
  threads.run([&](dist::Communicator& ranks) {
    runs[static_cast<std::size_t>(ranks.rank())] = play(ranks, directory, steps, resume);
  });
  return runs;
}

double furthest(const Weights& a, const Weights& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

class SelfPlayRanks : public ::testing::Test {
 protected:
  test::TemporaryDirectory folder_;
};

TEST_F(SelfPlayRanks, AllHaveTheSameWeightsAndEveryRunOfAsManyRanksHasTheirBits) {
  for (const int count : {2, 3}) {
    const std::vector<Learned> first = play_on(count, folder_.at("first" + std::to_string(count))),
                               second = play_on(count, folder_.at("second" + std::to_string(count)));
    for (const Learned& run : first) EXPECT_EQ(run.weights, first[0].weights);
    EXPECT_EQ(first[0].weights, second[0].weights);
    EXPECT_EQ(first[0].kl, second[0].kl);
  }
}

TEST_F(SelfPlayRanks, AnotherNumberOfRanksPlaysTheSameGamesAndLearnsTheSameToRounding) {
  const Learned alone = play_on(1, folder_.at("alone"))[0];
  ASSERT_GT(alone.games, 0);
  for (const int count : {2, 3}) {
    const Learned run = play_on(count, folder_.at(std::to_string(count)))[0];
    EXPECT_EQ(run.games, alone.games) << count;
    EXPECT_NEAR(run.mean_return, alone.mean_return, 1e-9) << count;
    EXPECT_NEAR(run.explained, alone.explained, 1e-4) << count;
    EXPECT_NEAR(run.kl, alone.kl, 1e-5) << count;
    EXPECT_LT(furthest(run.weights, alone.weights), 1e-4) << count;
  }
}

TEST_F(SelfPlayRanks, ARunThatStoppedGoesOnWithItsBitsAndWithOtherRanksToRounding) {
  const Weights whole = play_on(2, folder_.at("whole"))[0].weights;
  play_on(2, folder_.at("parts"), kSteps / 2 - 1);
  for (const int count : {1, 3}) {
    const std::string copy = folder_.at("parts" + std::to_string(count));
    std::filesystem::copy(folder_.at("parts"), copy, std::filesystem::copy_options::recursive);
    EXPECT_LT(furthest(play_on(count, copy, kSteps, true)[0].weights, whole), 1e-4) << count;
  }
  EXPECT_EQ(play_on(2, folder_.at("parts"), kSteps, true)[0].weights, whole);
}

TEST_F(SelfPlayRanks, ACheckpointOfOneProcessIsGoneOnWithByRanks) {
  const Weights whole = play_on(1, folder_.at("whole"))[0].weights;
  play_on(1, folder_.at("parts"), kSteps / 2 - 1);
  EXPECT_LT(furthest(play_on(3, folder_.at("parts"), kSteps, true)[0].weights, whole), 1e-4);
}

TEST(GameShare, MoreRanksThanGamesAreRefusedByKey) {
  test::ThreadRanks threads(3);
  threads.run([](dist::Communicator& ranks) {
    const std::string message =
        test::message_of<InvalidConfig>([&] { static_cast<void>(game_share(2, ranks, "tables")); });
    EXPECT_NE(message.find("tables: is 2, fewer than the 3 ranks"), std::string::npos) << message;
  });
}

TEST(GatheredRows, ComeInTheOrderOfTheirKeysAlsoWhereARankHasNone) {
  std::vector<std::vector<int>> seen(3);
  test::ThreadRanks threads(3);
  threads.run([&](dist::Communicator& ranks) {
    // Rank 1 has no rows; the others' keys alternate.
    const auto of_rank = static_cast<std::uint64_t>(ranks.rank());
    std::vector<std::uint64_t> keys;
    std::vector<int> rows;
    for (std::uint64_t i = 0; of_rank != 1 && i < 2; ++i) {
      keys.push_back(2 * i + of_rank / 2);
      rows.insert(rows.end(), {static_cast<int>(keys.back()), static_cast<int>(10 * keys.back())});
    }
    const GatheredRows gathered(ranks, keys);
    gathered.gather(rows, 2);
    seen[of_rank] = rows;
  });
  for (const std::vector<int>& rows : seen) EXPECT_EQ(rows, (std::vector{0, 0, 1, 10, 2, 20, 3, 30}));
}

// `ingot mahjong train` of ppo on ranks.
class MahjongRanks : public test::MahjongPpoTest {
 protected:
  std::optional<EvalRecord> train(int count, const std::string& output,
                                  const std::vector<std::string>& changes = {}) const {
    return train(count, output, changes, -1);
  }
  // `steps`: the ranks are killed behind them.
  std::optional<EvalRecord> train(int count, const std::string& output,
                                  const std::vector<std::string>& changes, int steps) const {
    std::vector<std::optional<EvalRecord>> evaluations(static_cast<std::size_t>(count));
    test::ThreadRanks threads(count);
    threads.run([&](dist::Communicator& ranks) {
      std::vector<std::string> all{"league.players={simple: 0.3}"};  // the strong player takes its time
      all.insert(all.end(), changes.begin(), changes.end());
      MahjongTraining training(config(output, all), {}, ranks);
      for (int i = 0; i < steps; ++i) training.trainer().step();
      if (steps < 0) evaluations[static_cast<std::size_t>(ranks.rank())] = training.run().evaluation;
    });
    for (const auto& evaluation : evaluations) EXPECT_EQ(evaluation.has_value(), evaluations[0].has_value());
    return evaluations[0];
  }
};

TEST_F(MahjongRanks, LearnTogetherAndGoOnWithTheSameBits) {
  train(2, "whole");
  train(2, "parts", {}, 3);  // a checkpoint of step 2 stays
  train(2, "parts", {"resume_from_checkpoint=true"});
  EXPECT_EQ(weights("parts"), weights("whole"));
}

TEST_F(MahjongRanks, ShareStateAndGradientsOutWithTheSameBits) {
  train(2, "whole");
  for (const std::string stage : {"1", "2"}) {
    train(2, "stage" + stage, {"zero_stage=" + stage});
    EXPECT_EQ(weights("stage" + stage), weights("whole")) << stage;
    train(2, "parts" + stage, {"zero_stage=" + stage}, 3);
    train(2, "parts" + stage, {"resume_from_checkpoint=true"});
    EXPECT_EQ(weights("parts" + stage), weights("whole")) << stage;
  }
}

TEST_F(MahjongRanks, PayPlacesAndGoOnInAnotherNumber) {
  InitSource source(3);
  RankNet odds(source, RankNetConfig{.hidden = 8});
  save_rank_net(directory_.at("odds"), odds);
  const std::string places = "reward_model=" + directory_.at("odds");
  train(1, "alone", {places});
  train(2, "parts", {places}, 3);
  train(3, "parts", {"resume_from_checkpoint=true", places});
  const std::vector<float> alone = weights("alone"), parts = weights("parts");
  ASSERT_EQ(parts.size(), alone.size());
  EXPECT_LT(furthest(parts, alone), 1e-3);
}

TEST_F(MahjongRanks, AllHearOfTheEvaluationThatTheFirstPlays) {
  const auto evaluation = train(2, "run", {"max_steps=1", "rollout_steps=6", "eval_walls=1"});
  ASSERT_TRUE(evaluation.has_value());
  EXPECT_GE(evaluation->loss, 1);
  EXPECT_LE(evaluation->loss, 4);
  EXPECT_EQ(evaluation->values.size(), 7U);
}

}  // namespace
}  // namespace ingot
