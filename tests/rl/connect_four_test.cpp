#include "ingot/rl/connect_four.h"

#include <set>
#include <utility>

#include "tests/rl/small_network.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/rl/masked_policy.h"
#include "ingot/rl/named_environment.h"
#include "ingot/rl/ppo_task.h"
#include "ingot/train/trainer.h"

namespace ingot {
namespace {

ConnectFour after(const std::vector<int>& columns) {
  ConnectFour game{};
  for (const int column : columns) game.drop(column);
  return game;
}

std::int64_t lines_of_play(const ConnectFour& game, int moves) {
  if (moves == 0) return 1;
  if (game.won()) return 0;
  std::int64_t lines = 0;
  for (int column = 0; column < ConnectFour::kColumns; ++column) {
    if (!game.may(column)) continue;
    ConnectFour next = game;
    next.drop(column);
    lines += lines_of_play(next, moves - 1);
  }
  return lines;
}

void add_positions(const ConnectFour& game, int moves,
                   std::set<std::pair<ConnectFour::Stones, ConnectFour::Stones>>& seen) {
  if (moves == 0) {
    seen.emplace(game.own, game.all);
    return;
  }
  if (game.won()) return;
  for (int column = 0; column < ConnectFour::kColumns; ++column) {
    if (!game.may(column)) continue;
    ConnectFour next = game;
    next.drop(column);
    add_positions(next, moves - 1, seen);
  }
}

TEST(ConnectFour, HasAsManyLinesAndPositionsAsOthersCount) {
  const std::int64_t lines[] = {1, 7, 49, 343, 2401, 16807, 117649, 823536};
  for (int moves = 0; moves < 8; ++moves) EXPECT_EQ(lines_of_play({}, moves), lines[moves]) << moves;
  const std::size_t positions[] = {1, 7, 49, 238, 1120, 4263, 16422};  // OEIS A212693
  for (int moves = 0; moves < 7; ++moves) {
    std::set<std::pair<ConnectFour::Stones, ConnectFour::Stones>> seen;
    add_positions({}, moves, seen);
    EXPECT_EQ(seen.size(), positions[moves]) << moves;
  }
}

TEST(ConnectFour, FourInAnyLineWinAndNothingElse) {
  EXPECT_TRUE(after({0, 1, 0, 1, 0, 1, 0}).won());              // up
  EXPECT_TRUE(after({0, 0, 1, 1, 2, 2, 3}).won());              // along a row
  EXPECT_TRUE(after({0, 1, 1, 2, 2, 3, 2, 3, 3, 6, 3}).won());  // rising
  EXPECT_TRUE(after({6, 5, 5, 4, 4, 3, 4, 3, 3, 0, 3}).won());  // falling
  EXPECT_FALSE(after({0, 0, 1, 1, 2, 2}).won());                // three
  EXPECT_FALSE(
      after({3, 3, 3, 3, 3, 3, 0, 4, 0, 4, 1, 4}).won());  // the top of a column, the foot of the next
  EXPECT_FALSE(after({3, 3, 3, 3, 3, 3}).may(3));
}

TEST(ConnectFour, RandomGamesEndWithinTheBoardAndObservationsShowEveryStone) {
  GameBatch<ConnectFour> games(64, 3);
  Rng random(5);
  std::vector<float> seen(64 * 84), legal(64 * 7), rewards(128);
  std::vector<std::int32_t> actions(64);
  std::vector<std::uint8_t> ended(64);
  int over = 0, draws = 0;
  for (int move = 0; move < 400; ++move) {
    games.observe(seen, legal);
    for (std::size_t i = 0; i < 64; ++i) {
      float stones = 0;
      for (std::size_t k = 0; k < 84; ++k) stones += seen[i * 84 + k];
      ASSERT_EQ(stones, static_cast<float>(std::popcount(games.game(i).all)));
      std::size_t column = random.below(7);
      while (legal[i * 7 + column] == 0) column = (column + 1) % 7;
      actions[i] = static_cast<std::int32_t>(column);
    }
    games.step(actions, rewards, ended);
    for (std::size_t i = 0; i < 64; ++i) {
      ASSERT_EQ(rewards[2 * i], -rewards[2 * i + 1]);
      ASSERT_TRUE(ended[i] != 0 || rewards[2 * i] == 0);
      over += ended[i];
      draws += ended[i] != 0 && rewards[2 * i] == 0 ? 1 : 0;
    }
  }
  EXPECT_GT(over, 64 * 400 / 42);
  EXPECT_LT(draws, over / 50);
  EXPECT_EQ(make_environment("connect_four", 2, 1)->spec().actions, 7);
}

TEST(ConnectFour, TheSearchWinsAtOnceAndParriesWhatItSees) {
  const auto winning = search_connect_four(after({0, 6, 1, 6, 2, 6}), 4);
  for (std::size_t column = 0; column < 7; ++column)
    EXPECT_EQ(column == 3, winning[column] == std::ranges::max(winning)) << column;
  const auto parrying = search_connect_four(after({6, 0, 6, 1, 5, 2}), 2);
  for (std::size_t column = 0; column < 7; ++column) EXPECT_EQ(column != 3, parrying[column] < 0) << column;
  const auto blind = search_connect_four(after({6, 0, 6, 1, 5, 2}), 1);
  for (std::size_t column = 0; column < 7; ++column) EXPECT_EQ(blind[column], 0) << column;
  EXPECT_FALSE(search_connect_four(after({3, 3, 3, 3, 3, 3}), 3)[3].has_value());
  EXPECT_THROW(search_connect_four({}, 0), InvalidConfig);
  // An open three on the second row from an empty board: lost in two moves, seen at depth 3, not at 2.
  const ConnectFour fork = after({2, 2, 3, 3});
  EXPECT_GT(search_connect_four(fork, 3)[4].value(), 0);
  EXPECT_EQ(search_connect_four(fork, 2)[4].value(), 0);
}

// The network's most probable column where the games are.
std::vector<std::int32_t> best_columns(test::SmallNetwork& network, std::span<const float> seen,
                                       std::span<const float> legal) {
  const NoGrad no_grad;
  const auto rows = static_cast<std::int64_t>(legal.size() / 7);
  const std::vector<float> logits =
      network(Tensor::from(std::vector<float>(seen.begin(), seen.end()), {rows, 84}))
          .logits.to_vector<float>();
  std::vector<std::int32_t> columns;
  columns.reserve(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i)
    columns.push_back(best_action(std::span(logits).subspan(7 * i, 7), legal.subspan(7 * i, 7)));
  return columns;
}

// Its mean result against random play, moving first in half of the games.
double against_random(test::SmallNetwork& network) {
  constexpr std::size_t kGames = 200;
  GameBatch<ConnectFour> games(kGames, 9);
  Rng random(11);
  std::vector<float> seen(kGames * 84), legal(kGames * 7), rewards(kGames * 2);
  std::vector<std::uint8_t> ended(kGames), done(kGames);
  double sum = 0;
  for (int move = 0; move < 42; ++move) {
    games.observe(seen, legal);
    std::vector<std::int32_t> actions = best_columns(network, seen, legal);
    for (std::size_t i = 0; i < kGames; ++i) {
      if (games.player(i) == static_cast<int>(i % 2)) continue;
      std::size_t column = random.below(7);
      while (legal[i * 7 + column] == 0) column = random.below(7);
      actions[i] = static_cast<std::int32_t>(column);
    }
    games.step(actions, rewards, ended);
    for (std::size_t i = 0; i < kGames; ++i) {
      if (ended[i] == 0 || done[i] != 0) continue;
      done[i] = 1;
      sum += static_cast<double>(rewards[2 * i + i % 2]);
    }
  }
  return sum / kGames;
}

TEST(PpoTask, SelfPlayInConnectFourBeatsRandomPlayAfterSeconds) {
  const int before = num_threads();
  set_num_threads(1);
  GameBatch<ConnectFour> games(64, 1);
  test::SmallNetwork network(ConnectFour::spec(), 64);
  const double untrained = against_random(network);
  PpoTask task(
      games, network,
      {.rollout_steps = 16,
       .minibatch = 512,
       .epochs = 2,
       .loss = {.entropy = 0.02},
       .optimizer = {.name = "adam", .learning_rate = 2e-3, .weight_decay = 0, .max_grad_norm = 0.5}});
  Trainer(task, {.total_steps = 300}).run();
  const double trained = against_random(network);
  set_num_threads(before);
  RecordProperty("untrained", std::to_string(untrained));
  RecordProperty("trained", std::to_string(trained));
  EXPECT_GT(trained, 0.7);
  EXPECT_LT(untrained, 0.5);
}

}  // namespace
}  // namespace ingot
