#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ingot/mahjong/arena.h"
#include "ingot/mahjong/rating.h"

namespace ingot::mahjong {

struct LadderOptions {
  Rules rules;
  std::uint64_t seed = 1;
  int walls = 100;  ///< each is played by four of the players, in all four rotations of the seats
  RatingModel model = {};
  std::function<void(std::int64_t walls)> played = {};  ///< walls so far; what it throws ends the ladder
};

struct LadderEntry {
  std::string name;
  Rating rating;
  std::int64_t games = 0;
  std::array<double, 4> places{};   ///< shares of first to fourth
  Estimate place;                   ///< mean place (1-4) against whoever was drawn, over walls
  std::vector<std::int64_t> walls;  ///< after which its rating moved, counted from 1
  std::vector<Rating> history;      ///< as it was after each of them
};

/// Ratings of many players. Each wall's four are dealt from a shuffled deck of all, so everybody plays about
/// as many games. Ratings move after each game, in the order of walls and rotations. The best comes first.
/// Depends on the players and options alone, not on the number of threads. Throws InvalidConfig for fewer
/// than four players, two of one name, or no walls.
std::vector<LadderEntry> run_ladder(std::span<const Entrant> players, const LadderOptions& options);

}  // namespace ingot::mahjong
