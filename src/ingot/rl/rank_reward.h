#pragma once

#include <array>
#include <memory>
#include <vector>

#include "ingot/models/policy/rank_net.h"
#include "ingot/rl/mahjong_game.h"

namespace ingot {

/// Mahjong that pays places, not points: a round brings each player the change of what it can expect for its
/// final place, by a RankNet, and the last round the difference to what the place pays. A game's rewards add
/// up to the final place's pay less the expectation at the start, whatever the net believes in between.
class RankReward : public Environment {
 public:
  /// `games` outlives it.
  RankReward(GameBatch<MahjongGame>& games, std::unique_ptr<RankNet> net,
             const std::array<float, 4>& place_pay = {3, 1, -1, -3});

  const EnvironmentSpec& spec() const override { return inner_.spec(); }
  std::size_t games() const override { return inner_.games(); }
  GameShare share() const override { return inner_.share(); }
  int player(std::size_t game) const override { return inner_.player(game); }
  void observe(std::span<float> observations, std::span<float> legal) const override {
    inner_.observe(observations, legal);
  }
  void observe_some(std::span<const std::uint8_t> wanted, std::span<float> observations,
                    std::span<float> legal) const override {
    inner_.observe_some(wanted, observations, legal);
  }
  void observe_hidden(std::span<float> hidden) const override { inner_.observe_hidden(hidden); }
  void step(std::span<const std::int32_t> actions, std::span<float> rewards,
            std::span<std::uint8_t> ended) override;
  Costs costs() const override { return inner_.costs(); }
  std::vector<std::byte> state() const override;
  std::vector<std::size_t> state_sizes() const override;
  void restore(std::span<const std::byte> state) override;

  /// What each player can expect now, [players].
  const std::array<float, 4>& expected(std::size_t game) const { return places_[game].expected; }

 private:
  // What is known of a game beside the game itself.
  struct Place {
    std::array<std::int32_t, 4> scores;  // with all that was paid
    std::array<float, 4> expected;
    std::int32_t round, honba;
  };
  void expect(std::span<const std::size_t> games);
  void start(std::size_t game);

  GameBatch<MahjongGame>& inner_;
  std::unique_ptr<RankNet> net_;
  std::array<float, 4> place_pay_;
  std::vector<Place> places_;
};

}  // namespace ingot
