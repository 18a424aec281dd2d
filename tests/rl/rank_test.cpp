#include <algorithm>
#include <array>

#include "tests/mahjong/games.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/config.h"
#include "ingot/models/registry.h"
#include "ingot/rl/mahjong_training.h"
#include "ingot/rl/rank_reward.h"

namespace ingot {
namespace {

std::unique_ptr<RankNet> rank_net(std::uint64_t seed = 3) {
  InitSource source(seed);
  auto net = std::make_unique<RankNet>(source, RankNetConfig{.hidden = 8});
  // Opinions that differ from round to round.
  for (const auto& [name, parameter] : named_parameters(*net)) {
    float* values = parameter->value.data<float>();
    for (std::int64_t i = 0; i < parameter->value.numel(); ++i) values[i] *= 20;
  }
  return net;
}

TEST(RankNet, LearnsThePlacesOfScoresAndIsSavedAndDescribed) {
  const test::TemporaryDirectory directory;
  mahjong::Rules rules;
  rules.length = mahjong::GameLength::East;
  for (std::uint64_t i = 0; i < 6; ++i)
    mahjong::write_log(directory.at("games") + std::to_string(i) + ".json",
                       to_mjai(mahjong::simple_game(i, rules)));
  Config file = Config::parse(
      "phase: grp\nlength: east\nbatch_size: 64\nmax_steps: 40\neval_steps: 20\nlearning_rate: 0.01\nhidden: "
      "16\n"
      "validation_split_ratio: 0.3\nreport_to: [jsonl]\ndevice: cpu\nsave_steps: 20\n",
      "grp.yaml");
  file.set("games=" + directory.path());
  file.set("output_dir=" + directory.at("out"));
  MahjongTraining training(read_mahjong_train_config(file));
  const MahjongTrainResult result = training.run();
  const auto& steps = training.trainer().history().steps();
  EXPECT_NEAR(steps.front().loss, 3.178, 0.01);  // ln 24: it knows nothing
  EXPECT_LT(steps.back().loss, 2.5);
  EXPECT_TRUE(result.evaluation.has_value());
  EXPECT_EQ(describe_model(result.model_directory), "rank_net, hidden layers of 16");
  EXPECT_EQ(open_rank_net(result.model_directory)->config.hidden, 16);
  EXPECT_THROW(open_dual_pool_net(result.model_directory), FormatError);
}

TEST(RankReward, RewardsOfAGameAddUpToItsPlacesPayLessWhatWasExpected) {
  GameBatch<MahjongGame> games(3, 1);
  RankReward places(games, rank_net());
  const auto actions = static_cast<std::size_t>(places.spec().actions);
  std::vector<float> observations(3 * static_cast<std::size_t>(places.spec().observation_size())),
      legal(3 * actions), rewards(3 * 4);
  std::vector<std::uint8_t> ended(3);
  std::vector<std::int32_t> chosen(3);
  std::array<std::array<double, 4>, 3> sums{};
  for (std::size_t game = 0; game < 3; ++game)
    for (std::size_t p = 0; p < 4; ++p) sums[game][p] = static_cast<double>(places.expected(game)[p]);
  Rng random(2);
  int over = 0, paid = 0;
  for (int step = 0; step < 20'000 && over < 3; ++step) {
    places.observe(observations, legal);
    for (std::size_t game = 0; game < 3; ++game) {
      std::vector<std::int32_t> choices;
      for (std::size_t a = 0; a < actions; ++a)
        if (legal[game * actions + a] != 0) choices.push_back(static_cast<std::int32_t>(a));
      chosen[game] = choices[random.below(choices.size())];
    }
    places.step(chosen, rewards, ended);
    for (std::size_t game = 0; game < 3; ++game) {
      for (std::size_t p = 0; p < 4; ++p) {
        sums[game][p] += static_cast<double>(rewards[game * 4 + p]);
        paid += rewards[game * 4 + p] != 0;
      }
      if (ended[game] == 0) continue;
      ++over;
      std::array<double, 4> pay = sums[game];
      std::ranges::sort(pay);
      for (std::size_t p = 0; p < 4; ++p) {
        EXPECT_NEAR(pay[p], (std::array{-3, -1, 1, 3})[p], 1e-4);
        sums[game][p] = static_cast<double>(places.expected(game)[p]);
      }
    }
  }
  EXPECT_EQ(over, 3);
  EXPECT_GT(paid, 3 * 4 * 3);  // after every round, not only at the end

  GameBatch<MahjongGame> others(3, 9);
  RankReward restored(others, rank_net());
  restored.restore(places.state());
  EXPECT_EQ(restored.state(), places.state());
  EXPECT_EQ(restored.expected(1), places.expected(1));
  EXPECT_THROW(restored.restore(std::vector<std::byte>(7)), InvalidConfig);
}

}  // namespace
}  // namespace ingot
