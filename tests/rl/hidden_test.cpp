// Observations that a player may not have: critics and teachers of training read them.
#include <cmath>
#include <map>
#include <string>

#include "tests/rl/games/cart_pole.h"
#include "tests/rl/games/kuhn_poker.h"
#include "tests/rl/small_network.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/rl/league.h"
#include "ingot/rl/ppo_task.h"
#include "ingot/train/trainer.h"

namespace ingot {
namespace {

using test::CartPole;
using test::KuhnPoker;
using test::SmallNetwork;

// Of networks this small threads only wait for each other.
const bool kHiddenOnOneThread = (set_num_threads(1), true);

EnvironmentSpec everything(EnvironmentSpec spec) {
  return {.players = spec.players, .actions = spec.actions, .observation = {spec.observation_size() + 3}};
}
Tensor beside(const Tensor& observations, const Tensor& hidden) {
  return concat(std::vector<Tensor>{observations, hidden}, 1);
}

// In Kuhn poker no two players hold the same card: what is hidden must belong to what is seen.
void expect_of_one_deal(const Tensor& observations, const Tensor& hidden) {
  const std::vector<float> seen = observations.to_vector<float>(), other = hidden.to_vector<float>();
  for (std::int64_t row = 0; row < observations.dim(0); ++row) {
    float cards = 0;
    for (std::int64_t card = 0; card < 3; ++card) {
      EXPECT_LE(seen[row * 7 + card] + other[row * 3 + card], 1);
      cards += seen[row * 7 + card] + other[row * 3 + card];
    }
    EXPECT_EQ(cards, 2);
  }
}

// A player with a second network as its oracle critic.
class WithCritic : public ActorCritic {
 public:
  explicit WithCritic(std::int64_t hidden)
      : player_(KuhnPoker::spec(), hidden), critic_(everything(KuhnPoker::spec()), hidden, 8, "oracle") {}
  ModuleRef module() override { return both_; }
  ActorCriticOutput operator()(const Tensor& observations) override { return player_(observations); }
  bool reads_hidden() const override { return true; }
  ActorCriticOutput with_hidden(const Tensor& observations, const Tensor& hidden) override {
    expect_of_one_deal(observations, hidden);
    ActorCriticOutput output = player_(observations);
    output.player_value = output.value;
    output.value = critic_(beside(observations, hidden)).value;
    return output;
  }
  SmallNetwork& player() { return player_; }

 private:
  struct Both {
    WithCritic& self;
    void visit(ParamVisitor& v) {
      self.player_.module().visit(v);
      ModuleRef critic = self.critic_.module();
      v("oracle", critic);
    }
  };
  SmallNetwork player_, critic_;
  Both both_{*this};
};

// Sees the opponent's card.
class CardOracle : public ActorCritic {
 public:
  CardOracle() : network_(everything(KuhnPoker::spec()), 16, 4) {}
  ModuleRef module() override { return network_.module(); }
  ActorCriticOutput operator()(const Tensor&) override { throw Error("an oracle plays with what is hidden"); }
  bool reads_hidden() const override { return true; }
  ActorCriticOutput with_hidden(const Tensor& observations, const Tensor& hidden) override {
    expect_of_one_deal(observations, hidden);
    return network_(beside(observations, hidden));
  }

 private:
  SmallNetwork network_;
};

PpoOptions hidden_options(std::int64_t epochs = 2) {
  return {.rollout_steps = 16,
          .minibatch = 64,
          .epochs = epochs,
          .advantage = {.gamma = 1, .lambda = 0.95},
          .optimizer = {.name = "adam", .learning_rate = 5e-3, .weight_decay = 0, .max_grad_norm = 0.5}};
}

std::map<std::string, std::vector<float>> all_weights(ActorCritic& network) {
  std::map<std::string, std::vector<float>> all;
  for (const auto& [name, parameter] : named_parameters(network.module()))
    all[name] = parameter->value.detach().to_vector<float>();
  return all;
}

TEST(HiddenObservation, AnOracleCriticExplainsMoreOfTheReturnsThanThePlayer) {
  GameBatch<KuhnPoker> games(64, 5);
  WithCritic network(16);
  PpoTask task(games, network, hidden_options());
  Trainer trainer(task, {.total_steps = 240});
  trainer.run();
  ASSERT_TRUE(task.health().player_explained_variance.has_value());
  EXPECT_GT(task.health().explained_variance, *task.health().player_explained_variance + 0.2);
  EXPECT_GT(*task.health().player_explained_variance, 0.05);  // it learned, too
}

TEST(HiddenObservation, ARunWithAnOracleCriticResumesWithTheSameBitsFromAnyStep) {
  GameBatch<KuhnPoker> games(12, 5);
  WithCritic whole(8);
  PpoTask whole_task(games, whole, hidden_options());
  Trainer(whole_task, {.total_steps = 12}).run();
  for (std::int64_t killed_after = 1; killed_after <= 8; ++killed_after) {
    const test::TemporaryDirectory directory;
    const CheckpointDirectory checkpoints(directory.at("run"));
    {
      GameBatch<KuhnPoker> first_games(12, 5);
      WithCritic first(8);
      PpoTask task(first_games, first, hidden_options());
      Trainer killed(task, {.total_steps = 12, .checkpoints = checkpoints, .save_steps = killed_after});
      for (std::int64_t i = 0; i < killed_after; ++i) killed.step();
    }
    GameBatch<KuhnPoker> second_games(12, 5);
    WithCritic second(8);
    PpoTask task(second_games, second, hidden_options());
    Trainer resumed(task, {.total_steps = 12});
    resumed.resume(*checkpoints.newest());
    resumed.run();
    EXPECT_EQ(all_weights(second), all_weights(whole)) << killed_after;
  }
}

TEST(HiddenObservation, ACheckpointWithoutACriticIsRefusedByOneWithIt) {
  const test::TemporaryDirectory directory;
  const TrainerOptions options{.total_steps = 2, .checkpoints = CheckpointDirectory(directory.at("run"))};
  GameBatch<KuhnPoker> games(12, 5);
  SmallNetwork plain(KuhnPoker::spec(), 8);
  PpoTask task(games, plain, hidden_options());
  Trainer(task, options).run();
  WithCritic network(8);
  PpoTask with(games, network, hidden_options());
  Trainer resumed(with, options);
  const std::string message =
      test::message_of<InvalidConfig>([&] { resumed.resume(*options.checkpoints->newest()); });
  EXPECT_NE(message.find("reads_hidden: is true, but"), std::string::npos) << message;
}

TEST(HiddenObservation, PastSelvesPlayWithoutTheCritic) {
  GameBatch<KuhnPoker> games(12, 5);
  WithCritic network(8);
  League league(games, {.past = 0.5, .past_selves = 2, .past_every = 1}, {},
                [] { return std::make_unique<SmallNetwork>(KuhnPoker::spec(), 8, 9); });
  PpoTask task(games, network, hidden_options(), nullptr, &league);
  Trainer(task, {.total_steps = 6}).run();
  std::map<std::string, Tensor> saved;
  league.save(saved);
  std::size_t kept = 0;
  for (const auto& [name, tensor] : saved) {
    EXPECT_EQ(name.find("oracle"), std::string::npos) << name;
    kept += name.starts_with("past.") ? 1 : 0;
  }
  EXPECT_EQ(kept, 2 * named_parameters(network.player().module()).size());
}

TEST(HiddenObservation, APlayerLearnsFromAnOracleWhatItCanSee) {
  // An oracle knows whether its card wins; a player can follow it as far as its own card and the moves tell.
  GameBatch<KuhnPoker> games(64, 5);
  CardOracle oracle;
  {
    PpoTask task(games, oracle, hidden_options());
    Trainer(task, {.total_steps = 160}).run();
  }
  SmallNetwork student(KuhnPoker::spec(), 16);
  PpoOptions options = hidden_options();
  options.loss.anchor = 1;
  options.loss.anchor_temperature = 3;
  options.final_anchor = 0.3;
  options.anneal_steps = 160;
  options.anchor_name = "teacher";
  PpoTask task(games, student, options, &oracle);
  Trainer trainer(task, {.total_steps = 160});
  const auto mean_kl = [&](std::int64_t steps) {
    double sum = 0;
    for (std::int64_t i = 0; i < steps; ++i) {
      trainer.step();
      sum += task.health().anchor_kl / static_cast<double>(steps);
    }
    return sum;
  };
  const double first = mean_kl(10);
  mean_kl(140);
  const double last = mean_kl(10);
  EXPECT_LT(last, 0.7 * first);
  EXPECT_GT(last, 0);  // it cannot know the card
  const NamedValues& values = trainer.history().steps().back().values;
  EXPECT_TRUE(std::ranges::any_of(values, [](const auto& value) { return value.first == "teacher kl"; }));
}

TEST(HiddenObservation, AGameThatTellsNothingHiddenIsRefusedByName) {
  GameBatch<CartPole> games(2, 1);
  EXPECT_EQ(games.spec().hidden_size(), 0);
  CardOracle oracle;
  const std::string message =
      test::message_of<InvalidConfig>([&] { PpoTask(games, oracle, hidden_options()); });
  EXPECT_NE(message.find("the game tells nothing hidden"), std::string::npos) << message;
}

// Gives a shape of something hidden, and does not tell it.
struct Forgetful : CartPole {
  static EnvironmentSpec spec() {
    EnvironmentSpec spec = CartPole::spec();
    spec.hidden = {2};
    return spec;
  }
};

TEST(HiddenObservation, AGameWhoseSpecAndFunctionsDifferIsRefused) {
  const std::string message = test::message_of<InvalidConfig>([] { const GameBatch<Forgetful> games(2, 1); });
  EXPECT_NE(message.find("hidden: the game's spec gives its shape"), std::string::npos) << message;
}

}  // namespace
}  // namespace ingot
