// What a player of mahjong may not see: an oracle critic, an oracle, and what is distilled from it.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/rl/mahjong_ppo_fixture.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/mahjong/encoder.h"
#include "ingot/mahjong/oracle.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/rl/dual_pool_player.h"
#include "ingot/rl/mahjong_batch.h"
#include "ingot/rl/mahjong_game.h"
#include "ingot/rl/mahjong_player.h"
#include "ingot/rl/network_directory.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

using mahjong::Table;
using test::MahjongPpoTest;
using test::message_of;

constexpr DualPoolNetConfig kSmallPlayer{
    .input_channels = 96, .channels = 8, .blocks = 1, .norm_groups = 4, .se_reduction = 4};
OracleCriticConfig small_critic() {
  return {.hidden_channels = mahjong::kOracleChannels, .feature_channels = 8, .channels = 8, .blocks = 1};
}

void expect_told(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

struct Shown {
  Tensor observation, hidden;
};
Shown shown_to(const std::vector<Table>& tables, const std::vector<int>& players) {
  const auto rows = static_cast<std::int64_t>(tables.size());
  constexpr std::size_t kOpen = 96 * mahjong::kKinds,
                        kHidden = std::size_t{mahjong::kOracleChannels} * mahjong::kKinds;
  std::vector<float> open(tables.size() * kOpen), hidden(tables.size() * kHidden);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    mahjong::encode(mahjong::observe(tables[i], players[i]), std::span(open).subspan(i * kOpen, kOpen),
                    {.context = true});
    mahjong::encode_oracle(tables[i], players[i], std::span(hidden).subspan(i * kHidden, kHidden));
  }
  return {.observation = Tensor::from(open, {rows, 96, mahjong::kKinds}),
          .hidden = Tensor::from(hidden, {rows, mahjong::kOracleChannels, mahjong::kKinds})};
}

// Positions of games that a policy drawing by lot plays.
std::pair<std::vector<Table>, std::vector<int>> played_positions(std::size_t games, int steps) {
  GameBatch<MahjongGame> batch(games, 4);
  const auto choices = static_cast<std::size_t>(batch.spec().actions);
  std::vector<float> observations(games * static_cast<std::size_t>(batch.spec().observation_size())),
      legal(games * choices), rewards(games * 4);
  std::vector<std::uint8_t> ended(games);
  std::vector<std::int32_t> chosen(games);
  Rng random(7);
  for (int step = 0; step < steps; ++step) {
    batch.observe(observations, legal);
    for (std::size_t game = 0; game < games; ++game) {
      std::int32_t action = 0;
      do action = static_cast<std::int32_t>(random.below(choices));
      while (legal[game * choices + static_cast<std::size_t>(action)] == 0);
      chosen[game] = action;
    }
    batch.step(chosen, rewards, ended);
  }
  std::pair<std::vector<Table>, std::vector<int>> all;
  all.first.reserve(games);
  all.second.reserve(games);
  for (std::size_t game = 0; game < games; ++game) {
    all.first.push_back(batch.game(game).table());
    all.second.push_back(batch.player(game));
  }
  return all;
}

// The same for the player, with its opponents' hands and the wall in another order.
Table with_other_hidden_tiles(Table table, int player) {
  const auto seat = [&](int offset) { return static_cast<std::size_t>((player + offset) % 4); };
  std::swap(table.own[seat(1)].hand, table.own[seat(3)].hand);
  std::swap(table.own[seat(1)].waits, table.own[seat(3)].waits);
  std::reverse(table.wall.begin(), table.wall.end());
  return table;
}

TEST(OracleCriticPlayer, HiddenTilesChangeTheValueAndNothingThatThePlayerSays) {
  InitSource source(3);
  DualPoolNet net(source, kSmallPlayer);
  OracleCriticPlayer player(net, ParamSource(source).scope("oracle"), small_critic());
  auto [tables, players] = played_positions(8, 12);
  const NoGrad no_grad;
  const Shown before = shown_to(tables, players);
  const ActorCriticOutput first = player.with_hidden(before.observation, before.hidden),
                          plain = player(before.observation);
  for (std::size_t i = 0; i < tables.size(); ++i) tables[i] = with_other_hidden_tiles(tables[i], players[i]);
  const Shown after = shown_to(tables, players);
  const ActorCriticOutput second = player.with_hidden(after.observation, after.hidden);
  EXPECT_EQ(after.observation.to_vector<float>(), before.observation.to_vector<float>());
  EXPECT_EQ(second.logits.to_vector<float>(), first.logits.to_vector<float>());
  EXPECT_EQ(plain.logits.to_vector<float>(), first.logits.to_vector<float>());
  EXPECT_EQ(second.player_value.to_vector<float>(), first.player_value.to_vector<float>());
  EXPECT_EQ(plain.value.to_vector<float>(), first.player_value.to_vector<float>());
  const std::vector<float> a = first.value.to_vector<float>(), b = second.value.to_vector<float>();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NE(a[i], b[i]) << i;
}

TEST(OracleCriticPlayer, TheOraclesLossTeachesThePlayerNothing) {
  InitSource source(3);
  DualPoolNet net(source, kSmallPlayer);
  OracleCriticPlayer player(net, ParamSource(source).scope("oracle"), small_critic());
  const auto [tables, players] = played_positions(4, 10);
  const Shown seen = shown_to(tables, players);
  backward(sum(square(player.with_hidden(seen.observation, seen.hidden).value)));
  for (const auto& [name, parameter] : named_parameters(net))
    EXPECT_FALSE(parameter->value.grad().defined()) << name;
  int learned = 0;
  for (const auto& [name, parameter] : named_parameters(player.module()))
    if (name.starts_with("oracle.")) learned += parameter->value.grad().defined() ? 1 : 0;
  EXPECT_GT(learned, 10);
}

TEST(OraclePlayer, StartsAsThePlayerItWasWidenedFromAndCannotPlayBlind) {
  InitSource source(3);
  DualPoolNet net(source, kSmallPlayer);
  const auto wide = with_more_inputs(net, mahjong::kOracleChannels);
  EXPECT_TRUE(is_mahjong_oracle(wide->config));
  OraclePlayer oracle(*wide);
  DualPoolPlayer player(net);
  const auto [tables, players] = played_positions(8, 12);
  const Shown seen = shown_to(tables, players);
  const NoGrad no_grad;
  const std::vector<float> found =
                               oracle.with_hidden(seen.observation, seen.hidden).logits.to_vector<float>(),
                           wanted = player(seen.observation).logits.to_vector<float>();
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-5F) << i;
  EXPECT_THROW(oracle(seen.observation), Error);
}

const std::vector<std::string> kCritic = {"oracle_critic.channels=8", "oracle_critic.blocks=1",
                                          "max_steps=4"};
std::vector<std::string> and_also(std::vector<std::string> changes, const std::vector<std::string>& more) {
  changes.insert(changes.end(), more.begin(), more.end());
  return changes;
}

class MahjongOracleTest : public MahjongPpoTest {
 protected:
  // Leaves a short run's oracle, or what was distilled from it.
  void train(const std::string& output, const std::vector<std::string>& changes) {
    MahjongTraining(config(output, changes)).run();
  }
  std::vector<std::string> oracle() const {
    return {"phase=oracle", "league.past=0", "league.players=null", "max_steps=2"};
  }
  std::vector<std::string> distil() const {
    return {"phase=distil", "max_steps=4", "teacher=" + directory_.at("oracle") + "/model"};
  }
};

TEST_F(MahjongOracleTest, ARunWithAnOracleCriticThatIsKilledGoesOnWithTheSameBits) {
  train("whole", kCritic);  // a checkpoint after each second step
  {
    MahjongTraining killed(config("killed", kCritic));
    for (int i = 0; i < 3; ++i) killed.trainer().step();
  }
  train("killed", and_also(kCritic, {"resume_from_checkpoint=true"}));
  EXPECT_EQ(weights("killed"), weights("whole"));
}

TEST_F(MahjongOracleTest, ThePlayerThatIsLeftHoldsNoOracle) {
  MahjongTraining training(config("run", and_also(kCritic, {"max_steps=2"})));
  const MahjongTrainResult result = training.run();
  const auto stored = open_weights(result.model_directory + "/model.safetensors");
  for (const TensorInfo& tensor : stored->tensors())
    EXPECT_EQ(tensor.name.find("oracle"), std::string::npos) << tensor.name;
  EXPECT_EQ(open_dual_pool_net(result.model_directory)->config.input_channels, 96);
  EXPECT_NO_THROW(entrant_named("model:" + result.model_directory));
  const NamedValues& values = training.trainer().history().steps().back().values;
  EXPECT_TRUE(std::ranges::any_of(
      values, [](const auto& value) { return value.first == "explained variance (player)"; }));
  expect_told(message_of<InvalidConfig>([&] {
                MahjongTraining(config("run", {"max_steps=2", "resume_from_checkpoint=true"}));
              }),
              "is false, but");
  expect_told(message_of<InvalidConfig>([&] {
                MahjongTraining(config("run", and_also(kCritic, {"oracle_critic.blocks=2", "max_steps=2",
                                                                 "resume_from_checkpoint=true"})));
              }),
              "oracle_critic: is ");
}

TEST_F(MahjongOracleTest, AnOracleIsTrainedAndDistilledIntoAPlayerBitForBit) {
  train("oracle", oracle());
  const std::string left = directory_.at("oracle") + "/model";
  EXPECT_EQ(open_dual_pool_net(left)->config.input_channels, 96 + mahjong::kOracleChannels);
  expect_told(message_of<InvalidConfig>([&] { entrant_named("model:" + left); }),
              "it is an oracle, which sees what is hidden and cannot play");

  MahjongTraining training(config("player", distil()));
  const MahjongTrainResult result = training.run();
  EXPECT_NO_THROW(entrant_named("model:" + result.model_directory));
  const NamedValues& values = training.trainer().history().steps().back().values;
  EXPECT_TRUE(std::ranges::any_of(values, [](const auto& value) { return value.first == "teacher kl"; }));
  {
    MahjongTraining killed(config("killed", distil()));
    for (int i = 0; i < 3; ++i) killed.trainer().step();
  }
  train("killed", and_also(distil(), {"resume_from_checkpoint=true"}));
  EXPECT_EQ(weights("killed"), weights("player"));
}

TEST_F(MahjongOracleTest, WhatIsDistilledIsKeptForALadderAsPlayers) {
  train("oracle", oracle());
  const std::string league = directory_.at("league");
  train("player", and_also(distil(), {"league.directory=" + league}));
  const FoundNetworks found = networks_under(league);
  EXPECT_TRUE(found.left_out.empty());
  ASSERT_FALSE(found.players.empty());
  EXPECT_EQ(found.players[0].name, "rollout-000001");
}

TEST_F(MahjongOracleTest, AnOraclesRunThatIsKilledGoesOnWithTheSameBits) {
  const std::vector<std::string> four = and_also(oracle(), {"max_steps=4"});
  train("whole", four);
  {
    MahjongTraining killed(config("killed", four));
    for (int i = 0; i < 3; ++i) killed.trainer().step();
  }
  train("killed", and_also(four, {"resume_from_checkpoint=true"}));
  EXPECT_EQ(weights("killed"), weights("whole"));
}

TEST_F(MahjongOracleTest, ConfigurationsThatCannotBeAreNamed) {
  const auto refused = [&](const std::vector<std::string>& changes) {
    return message_of<InvalidConfig>([&] { MahjongTraining(config("run", changes)); });
  };
  expect_told(refused({"phase=distil"}), "teacher: is missing");
  expect_told(refused({"phase=distil", "teacher=" + directory_.at("base")}),
              "input_channels: is 96 in " + directory_.at("base") +
                  ", but an oracle for a player that reads 96 reads 301");
  expect_told(refused({"phase=oracle"}), "league.past: is 0.4");
  expect_told(refused(and_also(oracle(), kCritic)), "oracle_critic");
  expect_told(refused(and_also(oracle(), {"league.directory=" + directory_.at("league")})),
              "league.directory: is " + directory_.at("league") + ", but an oracle sees what is hidden");
}

}  // namespace
}  // namespace ingot
