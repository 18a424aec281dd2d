#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ingot/mahjong/player.h"
#include "ingot/mahjong/sequential.h"

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

/// A player of an arena: one of `make` and `batch`.
struct Entrant {
  std::string name;
  PlayerFactory make = {};
  std::shared_ptr<BatchSelector> batch = {};
};

/// One game that is going to be played with others.
struct Match {
  std::uint64_t nonce = 0;                   ///< of its walls
  std::array<std::uint64_t, 4> seeds{};      ///< of the players, by seat
  std::array<const Entrant*, 4> entrants{};  ///< by seat
};
/// Plays them, many at a time, and asks each network about all that wait for it at once. `told(match,
/// events)` is called with what has happened, in pieces, `ended(match, table)` at the end of each; both for
/// one match at a time, for different ones on several threads. Throws IllegalAction naming the player.
/// Results depend on the matches alone, not on threads or on what is played together (for a network: as far
/// as its kernels compute a row alike in batches of all sizes).
void play_matches(const Rules& rules, const Seed& session, std::span<const Match> matches,
                  const std::function<void(std::size_t, const Events&)>& told,
                  const std::function<void(std::size_t, const Table&)>& ended);

/// Walls that are set aside for measuring: an arena with this seed, up to so many walls. Nothing else in the
/// library draws walls from these seeds unless it is told to.
struct WallBank {
  std::uint64_t seed = 0;
  int walls = 0;
};
/// "evaluation", or "ablation" for choices that the evaluation must not have seen; throws InvalidConfig for
/// another name.
WallBank wall_bank(std::string_view name);

struct ArenaOptions {
  Rules rules;
  std::uint64_t seed = 1;
  int walls = 100;  ///< games are walls times 4: each wall is played in all four rotations of the seats
  std::array<double, 4> rank_points = {90, 45, 0, -135};  ///< for `points`; first place first
  /// Stops at the wall that decides whether the first entrant ends in better places than the next of another
  /// name; `walls` are the most that are played.
  std::optional<SequentialOptions> sequential = {};
  std::function<void()> ended = {};  ///< after each game, on any thread; what it throws ends the arena
};

/// A mean with the half width of its 95 % confidence interval (over walls, which are independent).
struct Estimate {
  double mean = 0, half_width = 0;
};
inline constexpr double kHalfWidthOfError = 1.96;  ///< half widths in standard errors

struct ArenaScore {
  std::string name;
  std::int64_t games = 0, rounds = 0;
  std::array<double, 4> places{};  ///< shares of first to fourth
  Estimate place, points, score;   ///< mean place (1-4), rank points, result with uma in points of 1000
  Estimate win, deal_in, call, riichi, tsumo,
      exhausted_tenpai;                       ///< per round; call: rounds with an open meld
  double win_points = 0, deal_in_points = 0;  ///< mean of the hands, without honba and sticks
};

/// Whether two entrants end in different places: a t-test of the differences of their mean places over walls,
/// which they play together, so that luck with the tiles cancels.
struct PlaceTest {
  std::string first, second;
  Estimate difference;  ///< first minus second: negative where the first is better
  double p = 1;         ///< two-sided; 1 with fewer than two walls
};

/// How the sequential test ended.
struct SequentialResult {
  SequentialOptions options;
  Verdict verdict = Verdict::Open;
  std::int64_t walls = 0;  ///< that it took; a few more may have been played
  double log_likelihood_ratio = 0, bound = 0;
};

struct ArenaReport {
  std::vector<ArenaScore> entrants;  ///< one per name, in the order given
  std::vector<PlaceTest> tests;      ///< of each pair
  std::optional<SequentialResult> sequential = {};
  std::int64_t games = 0, rounds = 0;
  double seconds = 0;
};

/// Four entrants (equal names are counted together, for one against three) on the same walls from every seat.
/// The report depends on the options and players alone, not on the number of threads.
ArenaReport run_arena(const std::array<Entrant, 4>& entrants, const ArenaOptions& options);
/// A table of the report for people.
std::string format_report(const ArenaReport& report);

/// The two-sided p-value of Student's t with so many degrees of freedom.
double student_p(double t, double degrees);
/// Welch's test of two means that were measured apart (in two arenas, say): each with its 95 % half width and
/// the number of independent units (walls).
double welch_p(const Estimate& a, double units_a, const Estimate& b, double units_b);

}  // namespace ingot::mahjong
