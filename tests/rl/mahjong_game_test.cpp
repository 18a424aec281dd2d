#include "ingot/rl/mahjong_game.h"

#include <algorithm>
#include <array>
#include <utility>

#include <gtest/gtest.h>

#include "ingot/base/parallel.h"
#include "ingot/rl/dual_pool_player.h"
#include "ingot/rl/ppo_task.h"
#include "ingot/train/trainer.h"

namespace ingot {
namespace {

TEST(MahjongGame, GamesEndWithAllPointsPaidOut) {
  GameBatch<MahjongGame> batch(2, 1);
  const auto actions = static_cast<std::size_t>(batch.spec().actions);
  std::vector<float> observations(2 * static_cast<std::size_t>(batch.spec().observation_size())),
      legal(2 * actions), rewards(2 * 4);
  std::vector<std::uint8_t> ended(2);
  std::vector<std::int32_t> chosen(2);
  std::array<double, 2> sums{};
  Rng random(2);
  int games = 0, decisions = 0;
  for (; games < 2 && decisions < 20'000; ++decisions) {
    batch.observe(observations, legal);
    for (std::size_t game = 0; game < 2; ++game) {
      const std::span<const float> row = std::span(legal).subspan(game * actions, actions);
      std::vector<std::int32_t> choices;
      for (std::size_t a = 0; a < actions; ++a)
        if (row[a] != 0) choices.push_back(static_cast<std::int32_t>(a));
      ASSERT_FALSE(choices.empty());
      chosen[game] = choices[random.below(choices.size())];
    }
    batch.step(chosen, rewards, ended);
    for (std::size_t game = 0; game < 2; ++game) {
      double sum = 0;
      for (std::size_t player = 0; player < 4; ++player) sum += rewards[game * 4 + player];
      sums[game] += sum;
      EXPECT_GT(sum, -0.45);  // riichi sticks on the table: at most four
      if (ended[game] == 0) continue;
      ++games;
      EXPECT_NEAR(sums[game], 0, 1e-4);  // the first player takes the sticks that are left
      sums[game] = 0;
    }
  }
  EXPECT_GE(games, 2);
}

TEST(MahjongGame, GamesAreTheSameForEveryNumberOfThreads) {
  const auto play = [](int threads) {
    const int before = num_threads();
    set_num_threads(threads);
    constexpr std::size_t kGames = 40;
    GameBatch<MahjongGame> batch(kGames, 3);
    const auto actions = static_cast<std::size_t>(batch.spec().actions);
    std::vector<float> observations(kGames * static_cast<std::size_t>(batch.spec().observation_size())),
        legal(kGames * actions), rewards(kGames * 4);
    std::vector<std::uint8_t> ended(kGames);
    std::vector<std::int32_t> chosen(kGames);
    for (int step = 0; step < 50; ++step) {
      batch.observe(observations, legal);
      for (std::size_t game = 0; game < kGames; ++game) {
        const auto row = std::span(legal).subspan(game * actions, actions);
        chosen[game] = static_cast<std::int32_t>(std::ranges::find(row, 1.0F) - row.begin());
      }
      batch.step(chosen, rewards, ended);
    }
    set_num_threads(before);
    return std::pair{observations, batch.state()};
  };
  EXPECT_EQ(play(1), play(3));
}

TEST(MahjongGames, ObserveWhatIsWantedAsTheEncodingSays) {
  constexpr std::size_t kGames = 20;
  const mahjong::EncoderOptions encoding{.context = true, .outlook = true};
  const MahjongGames batch({.first = 0, .count = kGames, .all = kGames}, 3, encoding);
  EXPECT_EQ(batch.spec().observation, (std::vector<std::int64_t>{encoding.channels(), mahjong::kKinds}));
  const auto size = static_cast<std::size_t>(batch.spec().observation_size());
  std::vector<float> all(kGames * size), some(kGames * size, -7.0F),
      legal(kGames * static_cast<std::size_t>(batch.spec().actions)), legal_of_some(legal.size());
  std::vector<std::uint8_t> wanted(kGames);
  for (std::size_t i = 0; i < kGames; ++i) wanted[i] = i % 3 == 0 ? 1 : 0;
  batch.observe(all, legal);
  batch.observe_some(wanted, some, legal_of_some);
  EXPECT_EQ(legal, legal_of_some);
  std::vector<float> expected(size);
  for (std::size_t i = 0; i < kGames; ++i) {
    mahjong::encode(mahjong::observe(batch.game(i).table(), batch.player(i)), expected, encoding);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), all.begin() + static_cast<long>(i * size)));
    EXPECT_TRUE(wanted[i] == 0 ||
                std::equal(expected.begin(), expected.end(), some.begin() + static_cast<long>(i * size)));
  }
}

TEST(MahjongGame, PpoTakesStepsInItInF32AndBf16) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    GameBatch<MahjongGame> batch(4, 1);
    InitSource source(1, dtype);
    DualPoolNet net(source,
                    {.input_channels = 96, .channels = 8, .blocks = 1, .norm_groups = 4, .se_reduction = 4});
    DualPoolPlayer network(net);
    PpoTask task(batch, network,
                 {.rollout_steps = 24, .minibatch = 32, .epochs = 1, .advantage = {.gamma = 1}});
    Trainer trainer(task, {.total_steps = 2});
    trainer.run();
    EXPECT_GT(task.health().entropy, 0.5);
    EXPECT_EQ(trainer.history().steps().size(), 2U);
  }
}

}  // namespace
}  // namespace ingot
