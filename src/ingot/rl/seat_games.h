#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/rl/environment.h"
#include "ingot/rl/league.h"

namespace ingot {

/// One seat of many games of one kind. Each game waits for a decision of that seat; the other seats are moved
/// in between, on several threads. A game that ends begins anew.
class SeatGames {
 public:
  /// Decides for the other seats of some games: one legal action for each row of [rows, observation...] and
  /// [rows, actions].
  using Decide = std::function<void(std::span<const std::size_t> games, std::span<const float> observations,
                                    std::span<const float> legal, std::span<std::int32_t> actions)>;

  /// `name` is one of environment_names(). Chance of game i comes from seed + i. `opponents`: "random", drawn
  /// uniformly from the legal actions, or of mahjong any name that mahjong_player() takes. Throws
  /// InvalidConfig for a seat or a name that is not there.
  SeatGames(std::string_view name, std::size_t games, std::uint64_t seed, int seat,
            const std::string& opponents);
  /// The same, where `decide` is asked for all games that wait for another seat at once.
  SeatGames(std::string_view name, std::size_t games, std::uint64_t seed, int seat, Decide decide);

  const EnvironmentSpec& spec() const { return places_.front().game->spec(); }
  std::size_t games() const { return places_.size(); }
  /// What the seat sees, [games, observation...], and 1 for each legal action, else 0, [games, actions].
  void observe(std::span<float> observations, std::span<float> legal);
  /// One action per game. Writes what it and the others' moves behind it brought the seat, [games], and 1 for
  /// each game that ended, [games]: what is observed then is its successor. Throws InvalidConfig naming the
  /// game of an action that is not legal; nothing moves then. What `decide` throws leaves the games where
  /// they are, to be thrown away.
  void step(std::span<const std::int32_t> actions, std::span<float> rewards, std::span<std::uint8_t> ended);

 private:
  struct Place {
    std::unique_ptr<Environment> game;
    std::unique_ptr<Opponent> opponent;  // where `decide_` is not asked
    Rng random;
    std::vector<float> rewards;  // of all seats
    float gained = 0;            // by the seat since its last decision
    float next = 0;              // of that by the game that begins behind one that ended
    bool ended = false;
  };
  using Rows = std::span<const std::size_t>;

  void open(std::string_view name, std::size_t games, std::uint64_t seed);
  void move(Place& place, std::int32_t action) const;
  void move_others();
  void ask_for_others();
  void observe_rows(Rows games, std::span<float> observations, std::span<float> legal) const;
  void check_legal(Rows games, std::span<const float> legal, std::span<const std::int32_t> actions) const;

  int seat_;
  Decide decide_;
  std::vector<Place> places_;
  std::vector<std::size_t> all_;  // 0, 1, ...
  std::vector<float> legal_;      // of the positions as they are, where `looked_`
  bool looked_ = false;
};

}  // namespace ingot
