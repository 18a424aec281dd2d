#pragma once

#include "ingot/mahjong/encoder.h"
#include "ingot/mahjong/player.h"
#include "ingot/mahjong/table.h"
#include "ingot/rl/environment.h"
#include "ingot/rl/league.h"

namespace ingot {

/// Mahjong as GameBatch takes it: the 46 actions of mahjong/policy.h; observations are the 96 channels of
/// mahjong/encoder.h with context, [96, 34]; hidden are the 205 of mahjong/oracle.h, [205, 34]. Where several
/// players may claim a discard they are asked one after another, and none is told what the others said. Who
/// has one choice only is not asked. A round brings each player its change of score in units of 10,000
/// points, and costs who deals in 1; a game is the whole game under Tenhou's rules.
class MahjongGame {
 public:
  static EnvironmentSpec spec();
  void begin(Rng& random);
  int player() const { return player_; }
  void observe(std::span<float> out) const;
  void observe_hidden(std::span<float> out) const;
  void legal(std::span<float> out) const;
  /// What the deciding player sees, as `encoding` writes it.
  void observe_as(const mahjong::EncoderOptions& encoding, std::span<float> out) const;
  bool act(std::int32_t action, std::span<float> rewards);
  void last_costs(std::span<float> costs, float& occasions) const;

  const mahjong::Table& table() const { return table_; }

 private:
  void apply_index(int player, int index);

  mahjong::Table table_;
  int player_;
  std::uint8_t rounds_;    // that ended with the last act()
  std::uint8_t dealt_in_;  // bit per player, in them
};

/// Many games of it. With the outlook a player also sees what its choices are worth: observations are [121,
/// 34] then.
class MahjongGames : public GameBatch<MahjongGame> {
 public:
  MahjongGames(const GameShare& share, std::uint64_t seed, const mahjong::EncoderOptions& encoding);
  const EnvironmentSpec& spec() const override { return spec_; }
  void observe(std::span<float> observations, std::span<float> legal) const override {
    observe_some({}, observations, legal);
  }
  /// All of them where `wanted` is empty.
  void observe_some(std::span<const std::uint8_t> wanted, std::span<float> observations,
                    std::span<float> legal) const override;

 private:
  mahjong::EncoderOptions encoding_;
  EnvironmentSpec spec_;
};

/// A built-in player (mahjong/player.h) in a league. The games outlive it. `make` and what it makes are
/// called from several threads at once.
class BuiltInOpponent : public Opponent {
 public:
  BuiltInOpponent(const GameBatch<MahjongGame>& games, mahjong::PlayerFactory make)
      : batch_(games), make_(std::move(make)) {}
  std::vector<std::int32_t> decide(const Environment& environment, const OpponentRows& rows) override;
  bool reads_observations() const override { return false; }

 private:
  const GameBatch<MahjongGame>& batch_;
  mahjong::PlayerFactory make_;
};

}  // namespace ingot
