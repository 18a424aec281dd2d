#include "ingot/rl/rollout.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <utility>
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

// What a collector told of; a game or an opponent that stalls waits for it.
struct Told {
  std::string call;
  std::promise<void> promise;
  StallWatch::Tell tell() {
    return [this](const std::string& what, std::chrono::seconds) {
      if (!call.empty()) return;  // a slow machine may tell of more
      call = what;
      promise.set_value();
    };
  }
};

// Kuhn poker whose third step takes long, as a game of a plugin may.
class StallingGame : public GameBatch<KuhnPoker> {
 public:
  StallingGame(std::size_t games, std::uint64_t seed, std::future<void> told)
      : GameBatch(games, seed), told_(std::move(told)) {}
  void step(std::span<const std::int32_t> actions, std::span<float> rewards,
            std::span<std::uint8_t> ended) override {
    if (++steps_ == 3) told_.wait();
    GameBatch::step(actions, rewards, ended);
  }

 private:
  std::future<void> told_;
  int steps_ = 0;
};

// Takes long for its first decision, and always passes.
class StallingOpponent : public Opponent {
 public:
  explicit StallingOpponent(std::future<void> told) : told_(std::move(told)) {}
  std::vector<std::int32_t> decide(const Environment&, const OpponentRows& rows) override {
    told_.wait();
    return std::vector<std::int32_t>(rows.games.size(), 0);
  }

 private:
  std::future<void> told_;
};

TEST(RolloutCollector, TellsOfAGameThatDoesNotComeBack) {
  Told told;
  StallingGame game(4, 1, told.promise.get_future());
  SmallNetwork network(KuhnPoker::spec(), 8);
  RolloutCollector collector(game, network, nullptr, nullptr, 300ms, told.tell());
  collector.collect(6, RngKey{.seed = 1, .stream = 2});
  EXPECT_EQ(told.call, "the game's step()");
}

TEST(RolloutCollector, NamesAnOpponentThatDoesNotDecide) {
  Told told;
  GameBatch<KuhnPoker> game(4, 1);
  SmallNetwork network(KuhnPoker::spec(), 8);
  League league(game, LeagueOptions{},
                {{"my-bot", 1.0, std::make_shared<StallingOpponent>(told.promise.get_future())}},
                [] { return std::make_unique<SmallNetwork>(KuhnPoker::spec(), 8); });
  RolloutCollector collector(game, network, nullptr, &league, 300ms, told.tell());
  collector.collect(6, RngKey{.seed = 1, .stream = 2});
  EXPECT_EQ(told.call, "the opponent 'my-bot'");
}

// Kuhn poker that writes nonsense where nobody wants observations.
class SparingGame : public GameBatch<KuhnPoker> {
 public:
  using GameBatch::GameBatch;
  void observe_some(std::span<const std::uint8_t> wanted, std::span<float> observations,
                    std::span<float> legal) const override {
    observe(observations, legal);
    const std::size_t size = observations.size() / games();
    for (std::size_t i = 0; i < games(); ++i)
      if (wanted[i] == 0) {
        std::ranges::fill(observations.subspan(i * size, size), std::numeric_limits<float>::quiet_NaN());
        ++spared;
      }
  }
  mutable int spared = 0;
};

// Always passes, and looks at the game alone.
class PassingOpponent : public Opponent {
 public:
  std::vector<std::int32_t> decide(const Environment&, const OpponentRows& rows) override {
    return std::vector<std::int32_t>(rows.games.size(), 0);
  }
  bool reads_observations() const override { return false; }
};

TEST(RolloutCollector, IsTheSameWhereGamesWriteOnlyTheObservationsThatAreRead) {
  constexpr std::size_t kGames = 12;
  const auto collect = [&](Environment& games) {
    SmallNetwork network(games.spec(), 8);
    League league(games, LeagueOptions{},
                  {{.name = "passing", .share = 0.6, .opponent = std::make_shared<PassingOpponent>()}},
                  [] { return std::make_unique<SmallNetwork>(KuhnPoker::spec(), 8); });
    RolloutCollector collector(games, network, nullptr, &league, 60s, log_stall);
    return collector.collect(20, RngKey{.seed = 3, .stream = 4});
  };
  GameBatch<KuhnPoker> plain(kGames, 7);
  SparingGame sparing(kGames, 7);
  const Rollout all = collect(plain), some = collect(sparing);
  EXPECT_GT(sparing.spared, 20);
  EXPECT_EQ(all.observations, some.observations);
  EXPECT_EQ(all.actions, some.actions);
  EXPECT_EQ(all.log_probabilities, some.log_probabilities);
}

TEST(RolloutCollector, TheLogSaysWhatARunWaitsForAndWhatToDo) {
  ::testing::internal::CaptureStderr();
  log_stall("the game's step()", 61s);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("the game's step() has not come back for 61 s"), std::string::npos) << log;
  EXPECT_NE(log.find("--resume"), std::string::npos) << log;
}

}  // namespace
}  // namespace ingot
