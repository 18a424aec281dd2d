#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/base/rng.h"

namespace ingot {

/// Sizes of a game, the same for all of its positions.
struct EnvironmentSpec {
  int players = 1;                        ///< 1 to 4
  std::int64_t actions = 0;               ///< ids from 0 on; which of them are legal changes
  std::vector<std::int64_t> observation;  ///< shape of what a player sees
  /// Shape of what the deciding player may not see, for critics and teachers in training; empty: none.
  std::vector<std::int64_t> hidden = {};
  std::int64_t observation_size() const;
  std::int64_t hidden_size() const;  ///< 0 without
};

/// Which games of a run a process plays: those from `first` on.
struct GameShare {
  std::size_t first = 0, count = 0, all = 0;
};

/// Many games moved together, each of which waits for one decision of one player. A game that ends begins
/// anew with the next seed. Players know what observe() writes and nothing else.
class Environment {
 public:
  Environment() = default;
  virtual ~Environment() = default;
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  virtual const EnvironmentSpec& spec() const = 0;
  virtual std::size_t games() const = 0;
  /// Which of a run's games these are. All chance comes from a game's number in the run.
  virtual GameShare share() const { return {.first = 0, .count = games(), .all = games()}; }
  /// Who decides in a game now.
  virtual int player(std::size_t game) const = 0;
  /// What the deciding players see, [games, observation...], and 1 for each legal action, else 0,
  /// [games, actions]. At least one is legal.
  virtual void observe(std::span<float> observations, std::span<float> legal) const = 0;
  /// One legal action per game. Writes what it brought every player, [games, players], and 1 for each game
  /// that ended with it, [games].
  virtual void step(std::span<const std::int32_t> actions, std::span<float> rewards,
                    std::span<std::uint8_t> ended) = 0;

  /// What a limit may be kept of (rl/cost_limit.h). Empty where a game tells none.
  struct Costs {
    std::span<const float> costs;      ///< of the last step, [games, players]
    std::span<const float> occasions;  ///< for a cost of each player that ended with it, [games]
  };
  virtual Costs costs() const { return {}; }

  /// What the deciding players may not see, [games, hidden...]; nothing where spec().hidden is empty.
  virtual void observe_hidden(std::span<float> /*hidden*/) const {}

  /// Everything that a game depends on, for checkpoints: one array or more, one behind the other, each with
  /// an element for every game.
  virtual std::vector<std::byte> state() const = 0;
  /// The bytes of an element of each of these arrays.
  virtual std::vector<std::size_t> state_sizes() const { return {state().size() / games()}; }
  /// Throws InvalidConfig where `state` is of another environment.
  virtual void restore(std::span<const std::byte> state) = 0;

  /// observe() where only games with 1 in `wanted`, [games], need observations: those of the others may hold
  /// anything. For games whose observations take long.
  virtual void observe_some(std::span<const std::uint8_t> /*wanted*/, std::span<float> observations,
                            std::span<float> legal) const {
    observe(observations, legal);
  }
};

/// Throws InvalidConfig unless a saved state has the size that is needed.
void check_environment_state(std::size_t found, std::size_t needed);

/// Throws InvalidConfig where a game gives the shape of something hidden and does not tell it, or the
/// reverse.
void check_hidden(const EnvironmentSpec& spec, bool told);

/// What GameBatch needs: a plain value with the sizes as constants.
///
///     static EnvironmentSpec spec();
///     void begin(Rng& random);                         a new game; all of its chance comes from here
///     int player() const;                              who decides
///     void observe(std::span<float> out) const;        what that player sees; `out` is zeros
///     void legal(std::span<float> out) const;          1 for legal actions; `out` is zeros
///     bool act(std::int32_t action, std::span<float> rewards);  rewards are zeros; true when the game ends
template <class G>
concept Game = std::is_trivially_copyable_v<G> && requires(G game, const G& position, Rng& random) {
  { G::spec() } -> std::same_as<EnvironmentSpec>;
  game.begin(random);
  { position.player() } -> std::convertible_to<int>;
  position.observe(std::span<float>());
  position.legal(std::span<float>());
  { game.act(std::int32_t{}, std::span<float>()) } -> std::same_as<bool>;
};

/// One that tells what its last act() cost each player, and how many occasions for a cost ended with it
/// (a mahjong round): `costs` are zeros.
template <class G>
concept GameWithCosts = Game<G> && requires(const G& position, float& occasions) {
  position.last_costs(std::span<float>(), occasions);
};

/// One that tells what the deciding player may not see, of the shape that spec().hidden says; `out` is zeros.
template <class G>
concept GameWithHidden = Game<G> && requires(const G& position) {
  position.observe_hidden(std::span<float>());
};

/// Many games of one kind. The k-th game that slot i plays has the seed's stream (i, k), so what happens
/// depends on the seed and the actions alone, not on the threads or ranks that share the games out.
template <Game G>
class GameBatch : public Environment {
 public:
  GameBatch(std::size_t games, std::uint64_t seed)
      : GameBatch(GameShare{.first = 0, .count = games, .all = games}, seed) {}
  GameBatch(const GameShare& share, std::uint64_t seed) : seed_(seed), share_(share), places_(share.count) {
    const std::size_t games = share.count;
    check_hidden(spec_, GameWithHidden<G>);
    if constexpr (GameWithCosts<G>) {
      costs_.resize(games * static_cast<std::size_t>(spec_.players));
      occasions_.resize(games);
    }
    for (std::size_t i = 0; i < games; ++i) begin(i);
  }

  const EnvironmentSpec& spec() const override { return spec_; }
  std::size_t games() const override { return places_.size(); }
  GameShare share() const override { return share_; }
  int player(std::size_t game) const override { return places_[game].game.player(); }
  const G& game(std::size_t i) const { return places_[i].game; }

  void observe(std::span<float> observations, std::span<float> legal) const override {
    std::ranges::fill(observations, 0.0F);
    std::ranges::fill(legal, 0.0F);
    for_each_game([&](std::size_t i) {
      places_[i].game.observe(row(observations, i));
      places_[i].game.legal(row(legal, i));
    });
  }

  void observe_hidden(std::span<float> hidden) const override {
    if constexpr (GameWithHidden<G>) {
      std::ranges::fill(hidden, 0.0F);
      for_each_game([&](std::size_t i) { places_[i].game.observe_hidden(row(hidden, i)); });
    }
  }

  void step(std::span<const std::int32_t> actions, std::span<float> rewards,
            std::span<std::uint8_t> ended) override {
    std::ranges::fill(rewards, 0.0F);
    std::ranges::fill(costs_, 0.0F);
    for_each_game([&](std::size_t i) {
      ended[i] = places_[i].game.act(actions[i], row(rewards, i)) ? 1 : 0;
      if constexpr (GameWithCosts<G>) places_[i].game.last_costs(row(std::span(costs_), i), occasions_[i]);
      if (ended[i] != 0) begin(i);
    });
  }

  Costs costs() const override { return {costs_, occasions_}; }

  std::vector<std::byte> state() const override {
    const auto bytes = std::as_bytes(std::span(places_));
    return {bytes.begin(), bytes.end()};
  }
  void restore(std::span<const std::byte> state) override {
    check_environment_state(state.size(), places_.size() * sizeof(Place));
    std::memcpy(static_cast<void*>(places_.data()), state.data(), state.size());
  }

 protected:
  // f(i) of each game, on all threads.
  template <class F>
  void for_each_game(const F& f) const {
    constexpr std::int64_t kGrain = 16,
                           kPiece = 4;  // a mahjong game takes microseconds, some ten times others'
    parallel_share(static_cast<std::int64_t>(places_.size()), kGrain, kPiece,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) f(static_cast<std::size_t>(i));
                   });
  }

 private:
  struct Place {
    G game;
    std::uint64_t begun;  // games so far
  };
  static_assert(std::is_trivially_copyable_v<Place>);

  void begin(std::size_t i) {
    Rng random(RngKey{.seed = seed_, .stream = mix_stream(share_.first + i, places_[i].begun++)});
    places_[i].game = G{};
    places_[i].game.begin(random);
  }
  template <class T>
  std::span<T> row(std::span<T> all, std::size_t i) const {
    const std::size_t size = all.size() / places_.size();
    return all.subspan(i * size, size);
  }

  std::uint64_t seed_;
  GameShare share_;
  EnvironmentSpec spec_ = G::spec();
  std::vector<Place> places_;
  std::vector<float> costs_, occasions_;  // of the last step; empty without costs
};

}  // namespace ingot
