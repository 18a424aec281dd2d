#pragma once

#include <vector>

#include "ingot/mahjong/player.h"

namespace ingot::mahjong {

/// Plays one game to its end. `players` are by seat. A selector that answers with an illegal action throws
/// IllegalAction. With `events`, everything that happened is appended.
Table play_game(const Rules& rules, const Seed& session, std::uint64_t nonce,
                const std::array<ActionSelector*, 4>& players, Events* events = nullptr);

/// Many tables moved together: each asks for one decision per seat that must act.
class TableBatch {
 public:
  TableBatch(const Rules& rules, const Seed& session, std::size_t tables, std::uint64_t first_nonce = 0);
  struct Request {
    std::uint32_t table;
    std::uint8_t player;
  };
  /// Decisions that are due now, at least one per unfinished table. Finished rounds are dealt on; finished
  /// games stay until restart().
  const std::vector<Request>& requests() const { return requests_; }
  const Table& table(std::size_t i) const { return tables_[i]; }
  std::size_t size() const { return tables_.size(); }
  /// One action per request, in their order, on up to num_threads() threads. Throws IllegalAction naming the
  /// table before anything moves.
  void step(std::span<const Action> actions);
  /// Starts the finished tables anew with the next nonces; returns how many.
  std::size_t restart();

 private:
  void collect();
  Rules rules_;
  Seed session_;
  std::uint64_t next_nonce_;
  std::vector<Table> tables_;
  std::vector<Request> requests_;
};

struct Entrant {
  std::string name;
  PlayerFactory make;
};

struct ArenaOptions {
  Rules rules;
  std::uint64_t seed = 1;
  int walls = 100;  ///< games are walls times 4: each wall is played in all four rotations of the seats
  std::array<double, 4> rank_points = {90, 45, 0, -135};  ///< for `points`; first place first
};

/// A mean with the half width of its 95 % confidence interval (over walls, which are independent).
struct Estimate {
  double mean = 0, half_width = 0;
};

struct ArenaScore {
  std::string name;
  std::int64_t games = 0, rounds = 0;
  std::array<double, 4> places{};  ///< shares of first to fourth
  Estimate place, points, score;   ///< mean place (1-4), rank points, result with uma in points of 1000
  Estimate win, deal_in, call, riichi, tsumo,
      exhausted_tenpai;                       ///< per round; call: rounds with an open meld
  double win_points = 0, deal_in_points = 0;  ///< mean of the hands, without honba and sticks
};

struct ArenaReport {
  std::vector<ArenaScore> entrants;  ///< one per name, in the order given
  std::int64_t games = 0, rounds = 0;
  double seconds = 0;
};

/// Four entrants (equal names are counted together, for one against three) on the same walls from every seat.
/// The report depends on the options and players alone, not on the number of threads.
ArenaReport run_arena(const std::array<Entrant, 4>& entrants, const ArenaOptions& options);
/// A table of the report for people.
std::string format_report(const ArenaReport& report);

}  // namespace ingot::mahjong
