#include "ingot/mahjong/arena.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include <fmt/core.h>

#include "ingot/base/parallel.h"
#include "ingot/base/rng.h"
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

// Ratio of sums over walls with its standard error by linearisation: walls are the independent units.
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
  return {mean, 1.96 * error};
}

}  // namespace

Table play_game(const Rules& rules, const Seed& session, std::uint64_t nonce,
                const std::array<ActionSelector*, 4>& players, Events* events) {
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

ArenaReport run_arena(const std::array<Entrant, 4>& entrants, const ArenaOptions& options) {
  INGOT_CHECK(options.walls > 0, InvalidConfig("walls", "must be at least 1"));
  const Stopwatch watch;
  std::vector<std::string> names;
  std::array<std::size_t, 4> name_of{};
  for (std::size_t e = 0; e < 4; ++e) {
    const auto known = std::find(names.begin(), names.end(), entrants[e].name);
    name_of[e] = static_cast<std::size_t>(known - names.begin());
    if (known == names.end()) names.push_back(entrants[e].name);
  }
  std::vector<std::vector<Tally>> walls(static_cast<std::size_t>(options.walls),
                                        std::vector<Tally>(names.size()));
  const Seed session = seed_from_number(options.seed);
  parallel_for(options.walls, 1, [&](std::int64_t begin, std::int64_t end) {
    Events events;
    for (std::int64_t wall = begin; wall < end; ++wall) {
      auto& tallies = walls[static_cast<std::size_t>(wall)];
      for (std::size_t rotation = 0; rotation < 4; ++rotation) {
        std::array<std::unique_ptr<ActionSelector>, 4> owned;
        std::array<ActionSelector*, 4> players{};
        std::array<std::size_t, 4> who{};
        for (std::size_t seat = 0; seat < 4; ++seat) {
          const std::size_t entrant = (seat + rotation) % 4;
          owned[seat] =
              entrants[entrant].make(mix_stream(options.seed, static_cast<std::uint64_t>(wall) * 4 + seat));
          players[seat] = owned[seat].get();
          who[seat] = name_of[entrant];
        }
        events.clear();
        const Table end_table =
            play_game(options.rules, session, static_cast<std::uint64_t>(wall), players, &events);
        GameCounter(tallies, who).count(events);
        const GameResult result = game_result(end_table);
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
    }
  });
  ArenaReport report;
  for (std::size_t e = 0; e < names.size(); ++e) {
    ArenaScore& score = report.entrants.emplace_back();
    score.name = names[e];
    Tally sum;
    for (const auto& wall : walls) {
      const Tally& t = wall[e];
      sum.games += t.games;
      sum.rounds += t.rounds;
      for (std::size_t p = 0; p < 4; ++p) sum.places[p] += t.places[p];
      sum.wins += t.wins;
      sum.deal_ins += t.deal_ins;
      sum.win_points += t.win_points;
      sum.deal_in_points += t.deal_in_points;
    }
    score.games = static_cast<std::int64_t>(sum.games);
    score.rounds = static_cast<std::int64_t>(sum.rounds);
    for (std::size_t p = 0; p < 4; ++p) score.places[p] = sum.places[p] / sum.games;
    const auto of = [&](double Tally::*above, double Tally::*below) { return ratio(walls, e, above, below); };
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
    report.rounds = std::max(report.rounds, score.rounds);
  }
  report.games = 4 * options.walls;
  report.seconds = watch.seconds();
  return report;
}

std::string format_report(const ArenaReport& report) {
  std::string text = fmt::format("{} games in {:.1f} s; ± is the 95 % confidence interval over walls\n",
                                 report.games, report.seconds);
  text += fmt::format("{:<16}{:>14}{:>16}{:>16}  {:<23}{:>13}{:>13}{:>13}{:>13}{:>8}{:>8}\n", "player",
                      "place", "points", "score", "1st  2nd  3rd  4th %", "win %", "deal-in %", "call %",
                      "riichi %", "won", "lost");
  for (const ArenaScore& s : report.entrants) {
    const auto percent = [](const Estimate& e) {
      return fmt::format("{:.1f} ±{:.1f}", 100 * e.mean, 100 * e.half_width);
    };
    text += fmt::format("{:<16}{:>14}{:>16}{:>16}  {:<23}{:>13}{:>13}{:>13}{:>13}{:>8.0f}{:>8.0f}\n", s.name,
                        fmt::format("{:.3f} ±{:.3f}", s.place.mean, s.place.half_width),
                        fmt::format("{:+.2f} ±{:.2f}", s.points.mean, s.points.half_width),
                        fmt::format("{:+.2f} ±{:.2f}", s.score.mean, s.score.half_width),
                        fmt::format("{:.1f} {:.1f} {:.1f} {:.1f}", 100 * s.places[0], 100 * s.places[1],
                                    100 * s.places[2], 100 * s.places[3]),
                        percent(s.win), percent(s.deal_in), percent(s.call), percent(s.riichi), s.win_points,
                        s.deal_in_points);
  }
  return text;
}

}  // namespace ingot::mahjong
