#include "ingot/mahjong/arena.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include <fmt/core.h>

#include "ingot/base/parallel.h"
#include "ingot/base/rng.h"
#include "ingot/base/scope.h"
#include "ingot/base/stopwatch.h"

namespace ingot::mahjong {
namespace {

// Sums of one entrant name over one wall's four games.
struct Tally {
  double games = 0, rounds = 0;
  std::array<double, 4> places{};
  double place = 0, points = 0, score = 0;
  double wins = 0, deal_ins = 0, calls = 0, riichi = 0, tsumo = 0, draws = 0, tenpai = 0;
  double win_points = 0, deal_in_points = 0;
};

class GameCounter {
 public:
  GameCounter(std::vector<Tally>& tallies, const std::array<std::size_t, 4>& who)
      : tallies_(tallies), who_(who) {}

  void count(const Events& events) {
    for (const Event& event : events) {
      Tally& actor = tallies_[who_[event.actor]];
      switch (event.type) {
        case EventType::StartKyoku:
          open_.fill(false);
          for (const std::size_t w : who_) ++tallies_[w].rounds;
          break;
        case EventType::Chi:
        case EventType::Pon:
        case EventType::Daiminkan:
          if (!open_[event.actor]) ++actor.calls;
          open_[event.actor] = true;
          break;
        case EventType::Reach:
          ++actor.riichi;
          break;
        case EventType::Hora:
          count_win(event);
          break;
        case EventType::Ryukyoku:
          if (event.reason != DrawReason::Exhausted && event.reason != DrawReason::NagashiMangan) break;
          for (std::size_t p = 0; p < 4; ++p) {
            ++tallies_[who_[p]].draws;
            tallies_[who_[p]].tenpai += event.tenpai >> p & 1;
          }
          break;
        default:
          break;
      }
    }
  }

 private:
  void count_win(const Event& event) {
    Tally& winner = tallies_[who_[event.actor]];
    ++winner.wins;
    winner.win_points += event.points;
    if (event.target == event.actor) {
      ++winner.tsumo;
      return;
    }
    Tally& loser = tallies_[who_[event.target]];
    ++loser.deal_ins;
    loser.deal_in_points += event.points;
  }

  std::vector<Tally>& tallies_;
  const std::array<std::size_t, 4>& who_;
  std::array<bool, 4> open_{};
};

// Ratio of sums over walls with its standard error by linearization: walls are the independent units.
Estimate ratio(const std::vector<std::vector<Tally>>& walls, std::size_t entrant, double Tally::*above,
               double Tally::*below) {
  double top = 0, bottom = 0;
  for (const auto& wall : walls) {
    top += wall[entrant].*above;
    bottom += wall[entrant].*below;
  }
  if (bottom == 0) return {};
  const double mean = top / bottom;
  double squares = 0;
  for (const auto& wall : walls) {
    const double residual = wall[entrant].*above - mean * (wall[entrant].*below);
    squares += residual * residual;
  }
  const auto n = static_cast<double>(walls.size());
  if (n < 2) return {mean, 0};
  const double error = std::sqrt(squares * n / (n - 1)) / bottom;
  return {mean, kHalfWidthOfError * error};
}

}  // namespace

Table play_game(const Rules& rules, const Seed& session, std::uint64_t nonce,
                const std::array<ActionSelector*, 4>& players, Events* events) {
  const Scope scope(ScopeKind::work, "game", static_cast<std::int64_t>(nonce));
  Table table = start_game(rules, session, nonce, events);
  while (!table.over()) {
    if (table.pub.phase == Phase::RoundOver) {
      next_round(table, events);
      continue;
    }
    // All who are asked see the same table: nobody's answer shows in another's observation.
    const unsigned asked = table.to_act();
    for (int player = 0; player < 4 && table.to_act() != 0; ++player) {
      if ((asked >> player & 1) == 0) continue;
      const ActionList legal = legal_actions(table, player);
      const Action action = players[static_cast<std::size_t>(player)]->select(observe(table, player), legal);
      if (!legal.contains(action)) apply(table, player, action, events);  // throws, naming what is legal
      apply_trusted(table, player, action, events);
    }
  }
  return table;
}

TableBatch::TableBatch(const Rules& rules, const Seed& session, std::size_t tables, std::uint64_t first_nonce)
    : rules_(rules), session_(session), next_nonce_(first_nonce) {
  tables_.reserve(tables);
  for (std::size_t i = 0; i < tables; ++i) tables_.push_back(start_game(rules_, session_, next_nonce_++));
  collect();
}

void TableBatch::collect() {
  requests_.clear();
  for (std::size_t i = 0; i < tables_.size(); ++i)
    for (unsigned asked = tables_[i].to_act(); asked != 0; asked &= asked - 1)
      requests_.push_back({static_cast<std::uint32_t>(i), static_cast<std::uint8_t>(__builtin_ctz(asked))});
}

void TableBatch::step(std::span<const Action> actions) {
  INGOT_CHECK(actions.size() == requests_.size(),
              IllegalAction(fmt::format("{} actions for {} requests", actions.size(), requests_.size())));
  const auto count = static_cast<std::int64_t>(requests_.size());
  std::mutex mutex;
  std::string problem;
  parallel_for(count, 256, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      if (is_legal(tables_[requests_[i].table], requests_[i].player, actions[i])) continue;
      const std::lock_guard lock(mutex);
      problem = fmt::format("table {}, player {} may not {} now", requests_[i].table, requests_[i].player,
                            to_string(actions[i]));
    }
  });
  if (!problem.empty()) throw IllegalAction(problem);
  // The requests of one table stand together; a range takes the tables whose first request lies in it.
  parallel_for(count, 256, [&](std::int64_t begin, std::int64_t end) {
    auto i = static_cast<std::size_t>(begin);
    while (i > 0 && i < requests_.size() && requests_[i].table == requests_[i - 1].table) ++i;
    for (; i < requests_.size(); ++i) {
      const bool first = i == 0 || requests_[i].table != requests_[i - 1].table;
      if (first && i >= static_cast<std::size_t>(end)) break;
      Table& table = tables_[requests_[i].table];
      apply_trusted(table, requests_[i].player, actions[i]);
      if (table.pub.phase == Phase::RoundOver) next_round(table);
    }
  });
  collect();
}

std::size_t TableBatch::restart() {
  std::size_t restarted = 0;
  for (Table& table : tables_) {
    if (!table.over()) continue;
    table = start_game(rules_, session_, next_nonce_++);
    ++restarted;
  }
  if (restarted > 0) collect();
  return restarted;
}

namespace {

// The matches of an arena on so many walls from the first on: each in all rotations.
std::vector<Match> matches_of(const std::array<Entrant, 4>& entrants, const ArenaOptions& options,
                              std::size_t first, std::size_t walls) {
  std::vector<Match> matches;
  matches.reserve(4 * walls);
  for (std::uint64_t wall = first; wall < first + walls; ++wall)
    for (std::size_t rotation = 0; rotation < 4; ++rotation) {
      Match& match = matches.emplace_back();
      match.nonce = wall;
      for (std::size_t seat = 0; seat < 4; ++seat) {
        match.entrants[seat] = &entrants[(seat + rotation) % 4];
        match.seeds[seat] = mix_stream(options.seed, wall * 4 + seat);
      }
    }
  return matches;
}

Tally operator+(Tally a, const Tally& b) {
  for (double Tally::*sum : {&Tally::games, &Tally::rounds, &Tally::place, &Tally::points, &Tally::score,
                             &Tally::wins, &Tally::deal_ins, &Tally::calls, &Tally::riichi, &Tally::tsumo,
                             &Tally::draws, &Tally::tenpai, &Tally::win_points, &Tally::deal_in_points})
    a.*sum += b.*sum;
  for (std::size_t p = 0; p < 4; ++p) a.places[p] += b.places[p];
  return a;
}

void count_result(const Table& table, const std::array<std::size_t, 4>& who, const ArenaOptions& options,
                  std::vector<Tally>& tallies) {
  const GameResult result = game_result(table);
  for (std::size_t seat = 0; seat < 4; ++seat) {
    Tally& tally = tallies[who[seat]];
    const auto place = static_cast<std::size_t>(result.place[seat]);
    ++tally.games;
    ++tally.places[place];
    tally.place += static_cast<double>(place) + 1;
    tally.points += options.rank_points[place];
    tally.score += result.points[seat];
  }
}

using Walls = std::vector<std::vector<Tally>>;  // by wall and name

ArenaScore score_of(const Walls& walls, std::size_t entrant, const std::string& name) {
  Tally sum;
  for (const auto& wall : walls) sum = sum + wall[entrant];
  ArenaScore score;
  score.name = name;
  score.games = static_cast<std::int64_t>(sum.games);
  score.rounds = static_cast<std::int64_t>(sum.rounds);
  for (std::size_t p = 0; p < 4; ++p) score.places[p] = sum.places[p] / sum.games;
  const auto of = [&](double Tally::*above, double Tally::*below) {
    return ratio(walls, entrant, above, below);
  };
  score.place = of(&Tally::place, &Tally::games);
  score.points = of(&Tally::points, &Tally::games);
  score.score = of(&Tally::score, &Tally::games);
  score.win = of(&Tally::wins, &Tally::rounds);
  score.deal_in = of(&Tally::deal_ins, &Tally::rounds);
  score.call = of(&Tally::calls, &Tally::rounds);
  score.riichi = of(&Tally::riichi, &Tally::rounds);
  score.tsumo = of(&Tally::tsumo, &Tally::wins);
  score.exhausted_tenpai = of(&Tally::tenpai, &Tally::draws);
  score.win_points = sum.wins > 0 ? sum.win_points / sum.wins : 0;
  score.deal_in_points = sum.deal_ins > 0 ? sum.deal_in_points / sum.deal_ins : 0;
  return score;
}

double place_difference(const std::vector<Tally>& wall, std::size_t a, std::size_t b) {
  return wall[a].place / wall[a].games - wall[b].place / wall[b].games;
}

PlaceTest place_test(const Walls& walls, const std::vector<std::string>& names, std::size_t a,
                     std::size_t b) {
  PlaceTest test{.first = names[a], .second = names[b]};
  const auto n = static_cast<double>(walls.size());
  double sum = 0, squares = 0;
  for (const auto& wall : walls) {
    const double difference = place_difference(wall, a, b);
    sum += difference;
    squares += difference * difference;
  }
  test.difference.mean = sum / n;
  if (walls.size() < 2) return test;
  const double error = std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)) / (n - 1));
  test.difference.half_width = kHalfWidthOfError * error;
  if (error > 0)
    test.p = student_p(test.difference.mean / error, n - 1);
  else
    test.p = test.difference.mean == 0 ? 1 : 0;
  return test;
}

// An arena's entrants by name: equal names are counted together.
class ArenaRun {
 public:
  ArenaRun(const std::array<Entrant, 4>& entrants, const ArenaOptions& options)
      : entrants_(entrants), options_(options) {
    for (std::size_t e = 0; e < 4; ++e) {
      const auto known = std::find(names_.begin(), names_.end(), entrants[e].name);
      name_of_[e] = static_cast<std::size_t>(known - names_.begin());
      if (known == names_.end()) names_.push_back(entrants[e].name);
    }
  }
  const std::vector<std::string>& names() const { return names_; }
  const Walls& walls() const { return walls_; }

  void play(std::size_t count) {
    const std::size_t first = walls_.size();
    const std::vector<Match> matches = matches_of(entrants_, options_, first, count);
    Walls games(matches.size(), std::vector<Tally>(names_.size()));  // by match, then summed by wall
    std::vector<std::array<std::size_t, 4>> who(matches.size());
    std::vector<GameCounter> counters;
    counters.reserve(matches.size());
    for (std::size_t i = 0; i < matches.size(); ++i) {
      for (std::size_t seat = 0; seat < 4; ++seat) who[i][seat] = name_of_[(seat + i % 4) % 4];
      counters.emplace_back(games[i], who[i]);
    }
    play_matches(
        options_.rules, seed_from_number(options_.seed), matches,
        [&](std::size_t i, const Events& events) { counters[i].count(events); },
        [&](std::size_t i, const Table& table) {
          count_result(table, who[i], options_, games[i]);
          if (options_.ended) options_.ended();
        });
    walls_.resize(first + count, std::vector<Tally>(names_.size()));
    for (std::size_t i = 0; i < matches.size(); ++i)
      for (std::size_t e = 0; e < names_.size(); ++e) {
        Tally& sum = walls_[first + i / 4][e];
        sum = sum + games[i][e];
      }
  }

 private:
  const std::array<Entrant, 4>& entrants_;
  const ArenaOptions& options_;
  std::vector<std::string> names_;
  std::array<std::size_t, 4> name_of_{};
  Walls walls_;
};

// As many walls as make a full batch of games that are played together.
constexpr std::size_t kSequentialBlock = 64;

SequentialResult play_until_decided(ArenaRun& run, const ArenaOptions& options) {
  INGOT_CHECK(
      run.names().size() > 1,
      InvalidConfig("sequential", fmt::format("compares players, and all four are {}", run.names()[0])));
  SequentialTest test(*options.sequential);
  const auto most = static_cast<std::size_t>(options.walls);
  for (std::size_t told = 0; told < most && test.verdict() == Verdict::Open;) {
    run.play(std::min(kSequentialBlock, most - told));
    for (; told < run.walls().size(); ++told) test.add(place_difference(run.walls()[told], 0, 1));
  }
  return {*options.sequential, test.verdict(), test.observations(), test.log_likelihood_ratio(),
          test.bound()};
}

}  // namespace

WallBank wall_bank(std::string_view name) {
  constexpr int kBankWalls = 50'000;
  if (name == "evaluation") return {.seed = 0x2000, .walls = kBankWalls};
  if (name == "ablation") return {.seed = 0x2001, .walls = kBankWalls};
  throw InvalidConfig("bank", fmt::format("\"{}\" is unknown; use evaluation or ablation", name));
}

ArenaReport run_arena(const std::array<Entrant, 4>& entrants, const ArenaOptions& options) {
  INGOT_CHECK(options.walls > 0,
              InvalidConfig("walls", "must be at least 1, got " + std::to_string(options.walls)));
  const Stopwatch watch;
  ArenaRun run(entrants, options);
  ArenaReport report;
  if (options.sequential)
    report.sequential = play_until_decided(run, options);
  else
    run.play(static_cast<std::size_t>(options.walls));
  for (std::size_t e = 0; e < run.names().size(); ++e) {
    report.entrants.push_back(score_of(run.walls(), e, run.names()[e]));
    report.rounds = std::max(report.rounds, report.entrants.back().rounds);
    for (std::size_t other = 0; other < e; ++other)
      report.tests.push_back(place_test(run.walls(), run.names(), other, e));
  }
  report.games = 4 * std::ssize(run.walls());
  report.seconds = watch.seconds();
  return report;
}

}  // namespace ingot::mahjong
