#include "ingot/rl/rollout.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/rl/games/kuhn_poker.h"
#include "tests/rl/small_network.h"
#include <gtest/gtest.h>

#include "ingot/rl/environment.h"
#include "ingot/rl/league.h"

namespace ingot {
namespace {

using namespace std::chrono_literals;
using test::KuhnPoker;
using test::SmallNetwork;

// Kuhn poker whose third step takes long, as a game of a plugin may.
class StallingGame : public GameBatch<KuhnPoker> {
 public:
  using GameBatch::GameBatch;
  void step(std::span<const std::int32_t> actions, std::span<float> rewards,
            std::span<std::uint8_t> ended) override {
    if (++steps_ == 3) std::this_thread::sleep_for(200ms);
    GameBatch::step(actions, rewards, ended);
  }

 private:
  int steps_ = 0;
};

// Takes long for its first decision, and always passes.
class StallingOpponent : public Opponent {
 public:
  std::vector<std::int32_t> decide(const Environment&, const OpponentRows& rows) override {
    if (!stalled_) std::this_thread::sleep_for(200ms);
    stalled_ = true;
    return std::vector<std::int32_t>(rows.games.size(), 0);
  }

 private:
  bool stalled_ = false;
};

TEST(RolloutCollector, TellsOfAGameThatDoesNotComeBack) {
  StallingGame game(4, 1);
  SmallNetwork network(KuhnPoker::spec(), 8);
  RolloutCollector collector(game, network, nullptr, nullptr, 40ms);
  ::testing::internal::CaptureStderr();
  collector.collect(6, RngKey{.seed = 1, .stream = 2});
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("the game's step() has not come back for"), std::string::npos) << log;
  EXPECT_NE(log.find("--resume"), std::string::npos) << log;
  EXPECT_EQ(log.find("has not come back"), log.rfind("has not come back")) << log;
}

TEST(RolloutCollector, NamesAnOpponentThatDoesNotDecide) {
  GameBatch<KuhnPoker> game(4, 1);
  SmallNetwork network(KuhnPoker::spec(), 8);
  League league(game, LeagueOptions{}, {{"my-bot", 1.0, std::make_shared<StallingOpponent>()}},
                [] { return std::make_unique<SmallNetwork>(KuhnPoker::spec(), 8); });
  RolloutCollector collector(game, network, nullptr, &league, 40ms);
  ::testing::internal::CaptureStderr();
  collector.collect(6, RngKey{.seed = 1, .stream = 2});
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("the opponent 'my-bot' has not come back for"), std::string::npos) << log;
}

}  // namespace
}  // namespace ingot
