#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ingot/mahjong/game_index.h"

namespace ingot::mahjong {

/// What a player did in the games of an index, by the name that the logs give it.
struct PlayerRecord {
  std::int64_t games = 0, whole_games = 0, rounds = 0, wins = 0, deal_ins = 0;
  std::int64_t places = 0;  ///< sum over whole games, each 1 to 4
  /// NaN for a player without a whole game.
  double mean_place() const;
  /// Of rounds; NaN without one.
  double deal_in_rate() const;
  double win_rate() const;
};
using PlayerRecords = std::map<std::string, PlayerRecord>;
/// Of all seats that have a name.
PlayerRecords player_records(const GameIndex& index);

/// Whose decisions are learned from. A bound that is left as it is excludes nobody.
struct GameFilter {
  std::vector<std::string> players;  ///< these alone; empty: all
  std::int64_t min_games = 0;        ///< of the player in the index
  double max_mean_place = 4;         ///< 1 to 4
  double max_deal_in_rate = 1, min_win_rate = 0;
  bool whole_games = false;  ///< without games whose log breaks off

  /// Whether any bound depends on who plays: players without a name then are left out.
  bool by_player() const;
};

/// What a filter took away.
struct FilterResult {
  std::int64_t games = 0, decisions = 0;
  std::int64_t players = 0;  ///< named ones, none of whose decisions are left
};

/// Marks the decisions of players that do not pass, and drops games without any other. The records are those
/// of the index before. Throws InvalidConfig where nothing is left, and for a player
/// who is in no log.
FilterResult apply_filter(GameIndex& index, const GameFilter& filter);

}  // namespace ingot::mahjong
