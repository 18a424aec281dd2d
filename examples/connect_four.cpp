// Learns Connect Four against itself, past selves and a search, then plays the search:
// connect_four [seconds] [depth] [games].
#include "ingot/rl/connect_four.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/stopwatch.h"
#include "ingot/nn/linear.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"
#include "ingot/rl/masked_policy.h"
#include "ingot/rl/ppo_task.h"
#include "ingot/runtime/initialize.h"
#include "ingot/train/trainer.h"

using namespace ingot;

namespace {

constexpr std::int64_t kSeen = 84, kHidden = 256;

LinearOptions layer(std::int64_t in, std::int64_t out, double gain) {
  return {.in = in, .out = out, .weight_init = init::Orthogonal{gain}, .bias_init = init::kZeros};
}

// Two hidden layers that policy and value share.
struct Layers {
  explicit Layers(const ParamSource& source)
      : first(source.scope("first"), layer(kSeen, kHidden, 1.4)),
        second(source.scope("second"), layer(kHidden, kHidden, 1.4)),
        policy(source.scope("policy"), layer(kHidden, ConnectFour::kColumns, 0.01)),
        value(source.scope("value"), layer(kHidden, 1, 1.0)) {}
  void visit(ParamVisitor& v) {
    v("first", first);
    v("second", second);
    v("policy", policy);
    v("value", value);
  }
  Linear first, second, policy, value;
};

class Network : public ActorCritic {
 public:
  ModuleRef module() override { return layers_; }
  ActorCriticOutput operator()(const Tensor& seen) override {
    const Tensor x = reshape(seen, {seen.dim(0), kSeen});
    const Tensor h = relu(layers_.second(relu(layers_.first(x))));
    return {.logits = layers_.policy(h), .value = reshape(layers_.value(h), {x.dim(0)})};
  }

 private:
  InitSource source_{/*seed=*/1};
  Layers layers_{source_};
};

// The search, as somebody to play against.
class Searcher : public Opponent {
 public:
  Searcher(const GameBatch<ConnectFour>& games, int depth) : games_(games), depth_(depth) {}
  std::vector<std::int32_t> decide(const Environment&, const OpponentRows& rows) override {
    std::vector<std::int32_t> columns;
    for (std::size_t i = 0; i < rows.games.size(); ++i) {
      Rng random(static_cast<std::uint64_t>(rows.uniform[i] * 0x1p53));
      columns.push_back(searched_column(games_.game(rows.games[i]), depth_, random));
    }
    return columns;
  }

 private:
  const GameBatch<ConnectFour>& games_;
  int depth_;
};

std::int32_t best_column(Network& network, const ConnectFour& game) {
  const NoGrad no_grad;
  std::vector<float> seen(kSeen), legal(ConnectFour::kColumns);
  game.observe(seen);
  game.legal(legal);
  return best_action(network(Tensor::from(seen, {1, kSeen})).logits.to_vector<float>(), legal);
}

// 1 where the network wins, -1 where the search does. Two random moves make the games differ.
int duel(Network& network, bool first, int depth, Rng& random) {
  ConnectFour game{};
  for (int move = 0; move < 2; ++move) game.drop(static_cast<int>(random.below(7)));
  while (true) {
    const bool own = (game.player() == 0) == first;
    game.drop(own ? best_column(network, game) : searched_column(game, depth, random));
    if (game.won()) return own ? 1 : -1;
    if (game.full()) return 0;
  }
}

}  // namespace

int main(int argc, char** argv) {
  initialize();
  const double seconds = argc > 1 ? std::atof(argv[1]) : 120;
  const int depth = argc > 2 ? std::atoi(argv[2]) : 4, games = argc > 3 ? std::atoi(argv[3]) : 1000;
  GameBatch<ConnectFour> self_play(256, /*seed=*/1);
  Network network;
  League league(self_play, {.past = 0.2, .past_selves = 4, .past_every = 20},
                {{"search", 0.5, std::make_shared<Searcher>(self_play, depth)}},
                [] { return std::make_unique<Network>(); });
  PpoTask task(
      self_play, network,
      {.rollout_steps = 32,
       .minibatch = 1024,
       .epochs = 3,
       .advantage = {.gamma = 1, .lambda = 0.9},
       .loss = {.entropy = 0.02},
       .final_entropy = 0.02,
       .optimizer = {.name = "adam", .learning_rate = 1e-3, .weight_decay = 0, .max_grad_norm = 0.5}},
      nullptr, &league);
  Trainer trainer(task, {.total_steps = 1'000'000, .max_seconds = seconds});
  const Stopwatch watch;
  while (trainer.step()) {
    if (trainer.progress().step % 500 != 0) continue;
    const PpoHealth& health = task.health();
    std::printf("%6.0f s  %8lld games  entropy %.3f  explained variance %.3f  mean return %+.2f\n",
                watch.seconds(), static_cast<long long>(health.games), health.entropy,
                health.explained_variance, health.mean_return);
    std::fflush(stdout);
  }
  Rng random(7);
  int wins = 0, losses = 0;
  for (int game = 0; game < games; ++game) {
    const int result = duel(network, game % 2 == 0, depth, random);
    wins += result > 0 ? 1 : 0;
    losses += result < 0 ? 1 : 0;
  }
  const double score = (wins + 0.5 * (games - wins - losses)) / games;
  std::printf(
      "against a search %d moves deep, %d games: %d won, %d drawn, %d lost: %.1f ± %.1f %% of the points\n",
      depth, games, wins, games - wins - losses, losses, 100 * score,
      196 * std::sqrt(score * (1 - score) / games));
}
