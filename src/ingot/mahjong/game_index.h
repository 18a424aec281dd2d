#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ingot/mahjong/rules.h"

namespace ingot::mahjong {

/// A seat of a game, for filters (game_filter.h).
struct IndexedSeat {
  std::string name;            ///< empty where the log does not say
  std::int64_t decisions = 0;  ///< that are not forced ones
  int place = 0;               ///< 0 to 3; of a game that is over
  int wins = 0, deal_ins = 0;  ///< rounds
  bool kept = true;            ///< its decisions are learned from
};

/// A log as the index knows it.
struct IndexedGame {
  std::string path;
  std::uint64_t bytes = 0;
  std::int64_t modified = 0;  ///< of the file, nanoseconds
  std::string sha256;         ///< of the file as it lies there
  std::array<IndexedSeat, 4> seats;
  int rounds = 0;
  bool over = false;  ///< the log goes to the game's end
  std::string error;  ///< why it cannot be replayed; empty where it can

  /// Of the seats that are kept.
  std::int64_t decisions() const;
};

/// The games under some paths, each replayed once. What cannot be read or replayed is listed, with the
/// reason; of equal files the first counts.
class GameIndex {
 public:
  /// Files and directories (searched through). With `cache`, a file that is read first and written at the
  /// end, logs of unchanged size and time are not replayed again. `otherwise`: rules of logs that do not name
  /// theirs.
  static GameIndex build(const std::vector<std::string>& paths, const Rules& otherwise = {},
                         const std::string& cache = {});

  const std::vector<IndexedGame>& games() const { return games_; }
  const std::vector<IndexedGame>& refused() const { return refused_; }
  std::int64_t duplicates() const { return duplicates_; }
  const Rules& rules() const { return rules_; }
  std::int64_t decisions() const;
  /// Of the contents of all games, and which seats are kept: what a resumed run has to find again.
  std::string digest() const;
  /// Keeps the decisions of these seats alone, and of the games those that have any.
  void keep_seats(const std::function<bool(const IndexedGame&, const IndexedSeat&)>& wanted);
  /// Moves about `share` of the games into another index. Which ones depends on their contents alone, so a
  /// game stays on its side when others are added.
  GameIndex take_out(double share);

 private:
  Rules rules_;
  std::vector<IndexedGame> games_, refused_;
  std::int64_t duplicates_ = 0;
};

/// All files under the paths, sorted. IoError for a path that does not exist.
std::vector<std::string> files_under(const std::vector<std::string>& paths);

}  // namespace ingot::mahjong
