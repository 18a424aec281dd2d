#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ingot/base/stall_watch.h"
#include "ingot/core/tensor.h"
#include "ingot/core/transfer.h"
#include "ingot/nn/visit.h"
#include "ingot/rl/advantage.h"
#include "ingot/rl/environment.h"

namespace ingot {

struct ActorCriticOutput {
  Tensor logits;  ///< [batch, actions]
  Tensor value;   ///< [batch]
  /// Where `value` comes from an oracle critic: what the player itself expects, [batch]. It learns beside it.
  Tensor player_value = {};
};

/// A network that plays: a policy and a critic.
class ActorCritic {
 public:
  ActorCritic() = default;
  virtual ~ActorCritic() = default;
  ActorCritic(const ActorCritic&) = delete;
  ActorCritic& operator=(const ActorCritic&) = delete;

  virtual ModuleRef module() = 0;
  /// observations: f32, [batch, observation...], on the module's device.
  virtual ActorCriticOutput operator()(const Tensor& observations) = 0;

  /// Whether it is asked by with_hidden() in training: an oracle critic, or a teacher that sees everything.
  virtual bool reads_hidden() const { return false; }
  /// hidden: f32, [batch, hidden...]. The logits of what plays elsewhere must not depend on it.
  virtual ActorCriticOutput with_hidden(const Tensor& observations, const Tensor& /*hidden*/) {
    return (*this)(observations);
  }
};

/// with_hidden() of what reads it, else the network as it plays.
inline ActorCriticOutput in_training(ActorCritic& network, const Tensor& observations, const Tensor& hidden) {
  return network.reads_hidden() ? network.with_hidden(observations, hidden) : network(observations);
}

class League;

/// Decisions of many games, in order of time: [steps · games] without a league, else those of the seats that
/// learn.
struct Rollout {
  std::vector<float> observations, legal;
  std::vector<float> hidden;         ///< empty unless the network reads it
  std::vector<float> player_values;  ///< ActorCriticOutput::player_value; empty without
  /// step · games of the run + number of the game: the order of time, whoever plays them.
  std::vector<std::uint64_t> moments;
  std::vector<std::int64_t> actions;
  std::vector<float> log_probabilities;
  std::vector<float> anchor;  ///< masked log-probabilities of the anchor; empty without one
  std::vector<RolloutDecision> decisions;
  std::int64_t games_ended = 0;
  /// Σ of a player's rewards over the games that ended, from their beginning: the first one's, in a league
  /// the one's that learns in any case.
  double returns = 0;
  /// Of the seats that learn: what was to be limited (Environment::costs()), and the occasions for it.
  double costs = 0, occasions = 0;

  std::size_t size() const { return actions.size(); }
};

/// Writes to the log that a run waits for `call`.
void log_stall(const std::string& call, std::chrono::seconds waited);

/// Plays `steps` decisions of every game. All chance comes from `random`, element by element, so the rollout
/// is the same for every thread count. The value of the position behind the last decisions is not learned
/// from: it is what estimate_advantages() goes on from.
class RolloutCollector {
 public:
  /// A game or an opponent that does not come back for `patience` is told of.
  RolloutCollector(Environment& environment, ActorCritic& network, ActorCritic* anchor = nullptr,
                   League* league = nullptr, std::chrono::milliseconds patience = std::chrono::seconds(60),
                   StallWatch::Tell tell = log_stall);
  Rollout collect(std::int64_t steps, RngKey random);

  /// What each cost takes from the rewards of decisions from now on; `returns` leave it out.
  void set_cost_weight(double weight) { cost_weight_ = static_cast<float>(weight); }

  /// Rewards so far of the games that run, [games, players].
  const std::vector<float>& running_returns() const { return returns_; }
  void set_running_returns(std::vector<float> returns) { returns_ = std::move(returns); }

 private:
  void decide(Rollout& rollout, std::int64_t step, RngKey random);
  void learn_from(Rollout& rollout, std::span<const std::size_t> games, std::span<const double> uniform,
                  std::int64_t step);
  std::uint64_t moment(std::int64_t step, std::size_t game) const;
  void reward(Rollout& rollout);
  float cost_of(Rollout& rollout, std::size_t game, std::size_t stream) const;
  // Rows of `all` of those games, one behind the other.
  void copy_rows(std::span<const std::size_t> games, const std::vector<float>& all, float* to) const;
  std::vector<float> rows_of(std::span<const std::size_t> games, const std::vector<float>& all) const;
  Tensor on_device(std::unique_ptr<Upload>& through, std::span<const float> rows, const Shape& shape);
  Tensor hidden_on_device(Rollout& rollout, std::span<const std::size_t> games);

  Environment& environment_;
  ActorCritic& network_;
  ActorCritic* anchor_;
  League* league_;
  std::vector<float> observations_, legal_;                 // of all games now
  std::vector<float> hidden_;                               // of all games now; empty where nobody reads it
  std::unique_ptr<Upload> inputs_, masks_, hidden_inputs_;  // of up to all games, on the network's device
  std::vector<std::int32_t> actions_;
  std::vector<float> returns_;
  std::vector<std::int64_t> open_;  // by stream: the decision that rewards go to; -1: none
  std::vector<float> rewards_;
  std::vector<std::uint8_t> ended_;
  float cost_weight_ = 0;
  StallWatch stall_watch_;
};

}  // namespace ingot
