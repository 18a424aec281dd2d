#include "ingot/rl/league.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "tests/rl/games/kuhn_poker.h"
#include "tests/rl/mahjong_ppo_fixture.h"
#include "tests/rl/small_network.h"
#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/rl/mahjong_training.h"
#include "ingot/rl/network_directory.h"

namespace ingot {
namespace {

using test::KuhnPoker;
using test::message_of;
using test::SmallNetwork;

// Always passes, and counts.
class Passes : public Opponent {
 public:
  std::vector<std::int32_t> decide(const Environment& environment, const OpponentRows& rows) override {
    decisions += std::ssize(rows.games);
    for (const std::size_t game : rows.games) EXPECT_LT(game, environment.games());
    EXPECT_EQ(rows.legal.size(), rows.games.size() * 2);
    return std::vector<std::int32_t>(rows.games.size(), 0);
  }
  std::int64_t decisions = 0;
};

League::MakeNetwork small_networks() {
  return [] { return std::make_unique<SmallNetwork>(KuhnPoker::spec(), 4, 9); };
}

TEST(League, SeatsAreDrawnByShareAndOneAlwaysLearns) {
  GameBatch<KuhnPoker> games(400, 3);
  const auto passes = std::make_shared<Passes>();
  League league(games, {.past = 0.3, .past_selves = 2, .past_every = 1}, {{"passes", 0.5, passes}},
                small_networks());
  SmallNetwork network(KuhnPoker::spec(), 4);
  for (std::int64_t rollout = 1; rollout <= 3; ++rollout) league.note(network, rollout);
  std::map<std::int32_t, int> seats;
  for (int round = 0; round < 10; ++round)
    for (std::size_t game = 0; game < games.games(); ++game) {
      league.begin(game);
      EXPECT_EQ(league.seat(game, league.learner(game)), League::kLearns);
      ++seats[league.seat(game, 1 - league.learner(game))];
    }
  EXPECT_NEAR(seats[0] / 4000.0, 0.15, 0.03);
  EXPECT_NEAR(seats[1] / 4000.0, 0.15, 0.03);
  EXPECT_NEAR(seats[2] / 4000.0, 0.5, 0.04);
  EXPECT_NEAR(seats[League::kLearns] / 4000.0, 0.2, 0.03);
}

TEST(League, OnlySeatsThatLearnAreKeptAndOpponentsPlayTheOthers) {
  GameBatch<KuhnPoker> games(32, 3);
  const auto passes = std::make_shared<Passes>();
  League league(games, {.past = 0}, {{"passes", 1, passes}}, small_networks());
  SmallNetwork network(KuhnPoker::spec(), 4);
  RolloutCollector collector(games, network, nullptr, &league);
  const Rollout rollout = collector.collect(12, {.seed = 4});
  EXPECT_EQ(std::ssize(rollout.actions) + passes->decisions, 12 * 32);
  EXPECT_GT(passes->decisions, 100);
  EXPECT_EQ(rollout.observations.size(), rollout.size() * 7);
  EXPECT_GT(rollout.games_ended, 0);
  double rewards = 0;
  for (const RolloutDecision& d : rollout.decisions) rewards += d.last ? static_cast<double>(d.reward) : 0;
  EXPECT_NEAR(rewards, rollout.returns, 1e-4);  // Kuhn pays at the end
}

TEST(League, SharesThatCannotBeAreRefused) {
  GameBatch<KuhnPoker> games(1, 3);
  const auto passes = std::make_shared<Passes>();
  const std::string message = message_of<InvalidConfig>([&] {
    League(games, {.past = 0.6}, {{"passes", 0.5, passes}}, small_networks());
  });
  EXPECT_NE(message.find("league: shares add up to 1.1"), std::string::npos) << message;
}

using test::MahjongPpoTest;

// A run's checkpoints after each step are what a run leaves that is killed there: the later ones go first.
TEST_F(MahjongPpoTest, ARunThatIsKilledAfterAnyOfTwelveStepsGoesOnWithTheSameBits) {
  std::vector<std::string> changes = {"max_steps=13", "save_steps=1", "save_total_limit=13"};
  MahjongTraining(config("run", changes)).run();
  const std::vector<float> whole = weights("run");
  changes.emplace_back("resume_from_checkpoint=true");
  for (int steps = 12; steps >= 1; --steps) {
    for (int later = steps + 1; later <= 13; ++later)
      std::filesystem::remove_all(directory_.at("run") + fmt::format("/checkpoint-{:06}", later));
    std::filesystem::remove_all(directory_.at("run") + "/model");
    MahjongTraining resumed(config("run", changes));
    ASSERT_EQ(resumed.trainer().progress().step, steps);
    resumed.run();
    EXPECT_EQ(weights("run"), whole) << steps;
  }
}

TEST_F(MahjongPpoTest, KeepsItsPastSelvesAsNetworksForALadder) {
  const std::string league = directory_.at("league");
  MahjongTraining(config("kept", {"max_steps=12", "league.directory=" + league, "league.past_every=2"}))
      .run();
  const FoundNetworks found = networks_under(league);
  EXPECT_TRUE(found.left_out.empty());
  std::vector<std::string> names;
  for (const mahjong::Entrant& player : found.players) names.push_back(player.name);
  ASSERT_GE(names.size(), 2U);
  EXPECT_EQ(names[0], "rollout-000001");
  EXPECT_EQ(names[1], "rollout-000003");
  const auto first = [](const std::string& directory) {
    return open_dual_pool_net(directory)->policy_conv.weight.value.to_vector<float>();
  };
  EXPECT_EQ(first(league + "/rollout-000001"), first(directory_.at("base")));
  EXPECT_NE(first(league + "/rollout-000003"), first(directory_.at("base")));
}

TEST_F(MahjongPpoTest, MayPayPlacesInsteadOfPoints) {
  InitSource source(3);
  RankNet rank(source, {.hidden = 8});
  save_rank_net(directory_.at("rank"), rank);
  // Rollouts in which rounds end.
  const std::vector<std::string> points = {"tables=2", "rollout_steps=120", "minibatch_size=200",
                                           "max_steps=1"};
  std::vector<std::string> places = points;
  places.push_back("reward_model=" + directory_.at("rank"));
  MahjongTraining(config("points", points)).run();
  MahjongTraining(config("places", places)).run();
  EXPECT_NE(weights("places"), weights("points"));
  const std::string message = message_of<InvalidConfig>([&] {
    std::vector<std::string> changed = points;
    changed.emplace_back("resume_from_checkpoint=true");
    MahjongTraining(config("places", changed));
  });
  EXPECT_NE(message.find("reward: is \"points\""), std::string::npos) << message;
}

TEST_F(MahjongPpoTest, TellsItsHealthAndPlaysTheAnchorInEvaluations) {
  MahjongTraining training(config("run", {"max_steps=2", "eval_walls=1"}));
  const MahjongTrainResult result = training.run();
  const NamedValues& values = training.trainer().history().steps().back().values;
  for (const char* name :
       {"entropy", "kl", "clip fraction", "explained variance", "anchor kl", "mean return"})
    EXPECT_TRUE(std::ranges::any_of(values, [&](const auto& value) { return value.first == name; })) << name;
  ASSERT_TRUE(result.evaluation.has_value());
  EXPECT_GE(result.evaluation->loss, 1);
  EXPECT_LE(result.evaluation->loss, 4);
  for (const char* name : {"place", "win", "deal-in", "riichi", "call"})
    EXPECT_TRUE(std::ranges::any_of(result.evaluation->values, [&](const auto& value) {
      return value.first == name;
    })) << name;
}

TEST_F(MahjongPpoTest, ItsReportDrawsTheRangesOfHealthyMetrics) {
  MahjongTraining(config("run", {"max_steps=2", "report_to=[html]"})).run();
  const std::string report = read_file(directory_.at("run") + "/report.html");
  const std::size_t clipped = report.find(R"({"title":"clip fraction")");
  ASSERT_NE(clipped, std::string::npos);
  const std::string chart = report.substr(clipped, report.find(R"({"title":)", clipped + 1) - clipped);
  for (const char* line :
       {R"("name":"healthy from","x":[0,2],"y":[0.1,0.1])", R"("name":"healthy to","x":[0,2],"y":[0.3,0.3])"})
    EXPECT_NE(chart.find(line), std::string::npos) << chart;
}

TEST_F(MahjongPpoTest, AResumedRunRefusesChangedSettingsByName) {
  MahjongTraining(config("run", {"max_steps=2"})).run();
  for (const char* change : {"gamma=0.9", "gae_lambda=0.9", "clip_range=0.3", "learning_rate=0.02",
                             "tables=7", "league.past=0.1", "kl_coef=0.2"}) {
    const std::string message = message_of<InvalidConfig>([&] {
      MahjongTraining(config("run", {"resume_from_checkpoint=true", change}));
    });
    const std::string key = std::string(change).substr(0, std::string(change).find_first_of("=."));
    EXPECT_NE(message.find(key + ": is "), std::string::npos) << message;
  }
}

TEST_F(MahjongPpoTest, ConfigurationsThatCannotBeAreNamed) {
  const auto expect = [&](const std::string& change, const std::string& part) {
    const std::string message = message_of<InvalidConfig>([&] { MahjongTraining(config("run", {change})); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect("base_model=null", "base_model");
  expect("league.players.genius=0.1", "genius");
  expect("league.past=0.9", "shares add up to");
  expect("gamma=1.5", "gamma");
  InitSource source(2);
  DualPoolNet net(source,
                  {.input_channels = 84, .channels = 8, .blocks = 1, .norm_groups = 4, .se_reduction = 4});
  save_dual_pool_net(directory_.at("base"), net);
  expect("tables=6", "input_channels: is 84");
}

}  // namespace
}  // namespace ingot
