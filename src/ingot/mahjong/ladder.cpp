#include "ingot/mahjong/ladder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/core.h>

#include "ingot/base/error.h"
#include "ingot/base/rng.h"

namespace ingot::mahjong {
namespace {

constexpr std::uint64_t kDeckStream = 0x6465;

// Deals the four players of each wall. Who could not be dealt, as it sits at the table already, is first in
// line at the next.
class Deck {
 public:
  Deck(std::size_t players, std::uint64_t seed) : players_(players), random_(RngKey{seed, kDeckStream}) {}

  std::array<std::size_t, 4> deal() {
    std::array<std::size_t, 4> table{};
    std::size_t seated = 0;
    for (std::size_t i = 0; seated < 4;) {
      if (i == line_.size()) shuffle_in();
      const auto end = table.begin() + static_cast<std::ptrdiff_t>(seated);
      if (std::find(table.begin(), end, line_[i]) != end) {
        ++i;
        continue;
      }
      table[seated++] = line_[i];
      line_.erase(line_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return table;
  }

 private:
  void shuffle_in() {
    const auto first = line_.size();
    line_.resize(first + players_);
    std::iota(line_.begin() + static_cast<std::ptrdiff_t>(first), line_.end(), std::size_t{0});
    for (std::size_t i = players_; i > 1; --i)
      std::swap(line_[first + i - 1], line_[first + random_.below(i)]);
  }

  std::size_t players_;
  Rng random_;
  std::vector<std::size_t> line_;
};

class Ladder {
 public:
  Ladder(std::span<const Entrant> players, const LadderOptions& options)
      : players_(players), options_(options), deck_(players.size(), options.seed), sums_(players.size()) {
    for (const Entrant& player : players) {
      LadderEntry& entry = entries_.emplace_back();
      entry.name = player.name;
    }
  }

  // So many walls, which are played together.
  void play(std::int64_t count) {
    const std::vector<std::array<std::size_t, 4>> tables = deal(count);
    std::vector<Match> matches;
    matches.reserve(4 * tables.size());
    for (std::size_t wall = 0; wall < tables.size(); ++wall)
      for (std::size_t rotation = 0; rotation < 4; ++rotation)
        matches.push_back(match_of(tables[wall], walls_ + wall, rotation));
    std::vector<std::array<int, 4>> places(matches.size());  // by match and seat
    play_matches(
        options_.rules, seed_from_number(options_.seed), matches, [](std::size_t, const Events&) {},
        [&](std::size_t i, const Table& table) { places[i] = game_result(table).place; });
    for (std::size_t wall = 0; wall < tables.size(); ++wall)
      take(tables[wall], std::span(places).subspan(4 * wall, 4));
  }

  std::uint64_t walls() const { return walls_; }

  std::vector<LadderEntry> finish() {
    for (std::size_t p = 0; p < entries_.size(); ++p) {
      LadderEntry& entry = entries_[p];
      const auto n = static_cast<double>(entry.walls.size());
      if (n == 0) continue;
      const double mean = sums_[p].place / n;
      for (double& share : entry.places) share /= static_cast<double>(entry.games);
      entry.place.mean = mean;
      if (n > 1)
        entry.place.half_width =
            kHalfWidthOfError * std::sqrt(std::max(0.0, sums_[p].squares / n - mean * mean) / (n - 1));
    }
    std::ranges::stable_sort(entries_, std::greater{},
                             [](const LadderEntry& entry) { return entry.rating.ordinal(); });
    return std::move(entries_);
  }

 private:
  struct Sums {
    double place = 0, squares = 0;  // of the mean places of walls
  };

  std::vector<std::array<std::size_t, 4>> deal(std::int64_t count) {
    std::vector<std::array<std::size_t, 4>> tables(static_cast<std::size_t>(count));
    for (auto& table : tables) table = deck_.deal();
    return tables;
  }

  Match match_of(const std::array<std::size_t, 4>& table, std::uint64_t wall, std::size_t rotation) const {
    Match match{.nonce = wall};
    for (std::size_t seat = 0; seat < 4; ++seat) {
      match.entrants[seat] = &players_[table[(seat + rotation) % 4]];
      match.seeds[seat] = mix_stream(options_.seed, wall * 4 + seat);
    }
    return match;
  }

  // The four games of a wall, by rotation.
  void take(const std::array<std::size_t, 4>& table, std::span<const std::array<int, 4>> games) {
    ++walls_;
    std::array<double, 4> place{};
    for (std::size_t rotation = 0; rotation < 4; ++rotation) {
      std::array<Rating, 4> ratings;
      std::array<double, 4> ranks{};
      for (std::size_t seat = 0; seat < 4; ++seat) {
        const std::size_t who = (seat + rotation) % 4;
        LadderEntry& entry = entries_[table[who]];
        ratings[who] = entry.rating;
        ranks[who] = games[rotation][seat];
        place[who] += (ranks[who] + 1) / 4;
        entry.places[static_cast<std::size_t>(games[rotation][seat])] += 1;
        ++entry.games;
      }
      rate_game(ratings, ranks, options_.model);
      for (std::size_t who = 0; who < 4; ++who) entries_[table[who]].rating = ratings[who];
    }
    for (std::size_t who = 0; who < 4; ++who) {
      LadderEntry& entry = entries_[table[who]];
      entry.walls.push_back(static_cast<std::int64_t>(walls_));
      entry.history.push_back(entry.rating);
      sums_[table[who]].place += place[who];
      sums_[table[who]].squares += place[who] * place[who];
    }
  }

  std::span<const Entrant> players_;
  const LadderOptions& options_;
  Deck deck_;
  std::vector<Sums> sums_;
  std::vector<LadderEntry> entries_;
  std::uint64_t walls_ = 0;
};

// As many walls as make a full batch of games that are played together.
constexpr std::int64_t kBlock = 64;

}  // namespace

std::vector<LadderEntry> run_ladder(std::span<const Entrant> players, const LadderOptions& options) {
  INGOT_CHECK(options.walls > 0,
              InvalidConfig("walls", "must be at least 1, got " + std::to_string(options.walls)));
  INGOT_CHECK(players.size() >= 4,
              InvalidConfig("players", fmt::format("are {}; a table has four seats: name {} more",
                                                   players.size(), 4 - players.size())));
  std::set<std::string> names;
  for (const Entrant& player : players)
    INGOT_CHECK(names.insert(player.name).second,
                InvalidConfig("players", fmt::format("has {} twice", player.name)));
  Ladder ladder(players, options);
  for (std::int64_t done = 0; done < options.walls; done = static_cast<std::int64_t>(ladder.walls())) {
    ladder.play(std::min(kBlock, options.walls - done));
    if (options.played) options.played(static_cast<std::int64_t>(ladder.walls()));
  }
  return ladder.finish();
}

}  // namespace ingot::mahjong
