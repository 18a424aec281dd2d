#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ingot/rl/environment.h"
#include "ingot/rl/rollout.h"

namespace ingot {

/// Decisions of some games of an environment, row by row.
struct OpponentRows {
  std::span<const std::size_t> games;
  std::span<const float> observations, legal;  ///< of those games
  std::span<const double> uniform;             ///< in [0, 1), one for each
};

/// Who decides for a seat that does not learn.
class Opponent {
 public:
  virtual ~Opponent() = default;
  /// One legal action for each row.
  virtual std::vector<std::int32_t> decide(const Environment& environment, const OpponentRows& rows) = 0;
  /// False for one that asks the environment itself: its rows' observations hold anything.
  virtual bool reads_observations() const { return true; }
};

struct LeagueOptions {
  double past = 0;               ///< share of the other seats that past selves take
  std::int64_t past_selves = 4;  ///< so many are kept; the newest takes the oldest one's place
  std::int64_t past_every = 10;  ///< rollouts between two of them
  std::uint64_t seed = 1;
};
/// A player that stays as it is, for a share of the other seats.
struct FixedOpponent {
  std::string name;
  double share = 0;
  std::shared_ptr<Opponent> opponent;
};

/// Who sits in the games of a rollout. In each game one seat, drawn by lot, learns; each other seat is a past
/// self, a fixed opponent, or learns too. Seats are drawn anew when a game begins.
class League {
 public:
  /// A network like the one that learns, for a past self: its weights are replaced.
  using MakeNetwork = std::function<std::unique_ptr<ActorCritic>()>;
  /// Throws InvalidConfig where shares are not from 0 to 1 together.
  League(const Environment& environment, const LeagueOptions& options, std::vector<FixedOpponent> fixed,
         const MakeNetwork& make);

  static constexpr std::int32_t kLearns = -1;
  /// kLearns, or the number of its opponent.
  std::int32_t seat(std::size_t game, int player) const;
  /// The seat that learns in any case.
  int learner(std::size_t game) const { return learners_[game]; }
  std::size_t opponents() const { return past_.size() + fixed_.size(); }
  Opponent& opponent(std::int32_t number);
  /// Of its opponent, for messages: "rule-based", or "past self".
  std::string name(std::int32_t number) const;
  /// A game ended, and the next one begins in its place.
  void begin(std::size_t game);
  /// After each rollout's learning begins: every so often the network's weights become a past self.
  void note(ActorCritic& network, std::int64_t rollouts);
  /// Called where that is so, also where past selves take no seats: keeps the network, for a ladder.
  void keep(std::function<void(std::int64_t rollouts)> keep) { keep_ = std::move(keep); }

  /// Of what a run may not change, a JSON object.
  std::string settings() const;
  void save(std::map<std::string, Tensor>& tensors) const;
  void restore(const std::map<std::string, Tensor>& tensors);

 private:
  struct PastSelf {
    std::unique_ptr<ActorCritic> network;
    std::unique_ptr<Opponent> opponent;
  };

  LeagueOptions options_;
  std::function<void(std::int64_t)> keep_;
  std::size_t first_game_;  // number of game 0 among those of the run
  std::vector<FixedOpponent> fixed_;
  std::vector<PastSelf> past_;
  int players_;
  std::int64_t noted_ = 0;              // past selves so far; 0: there is none yet
  std::vector<std::int64_t> begun_;     // games so far, by slot
  std::vector<std::int32_t> seats_;     // [games, players]
  std::vector<std::int32_t> learners_;  // [games]
};

/// Draws from a network's policy. The network outlives it.
std::unique_ptr<Opponent> network_opponent(ActorCritic& network);

}  // namespace ingot
