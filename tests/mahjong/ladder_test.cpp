#include "ingot/mahjong/ladder.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"

namespace ingot::mahjong {
namespace {

std::vector<Entrant> players(const std::vector<std::string>& names) {
  std::vector<Entrant> all;
  all.reserve(names.size());
  for (const std::string& name : names) all.push_back({.name = name, .make = player_named(name)});
  return all;
}

const std::vector<std::string> kFive{"random", "simple", "tsumogiri", "first-legal", "rule-based"};

LadderOptions short_games(int walls) {
  LadderOptions options;
  options.rules.length = GameLength::SingleRound;
  options.walls = walls;
  return options;
}

TEST(Ladder, OrdersPlayersByStrengthAndLetsEachPlayAsOften) {
  std::int64_t told = 0;
  LadderOptions options = short_games(70);
  options.played = [&](std::int64_t walls) { told = walls; };
  const auto ladder = run_ladder(players(kFive), options);
  EXPECT_EQ(told, 70);
  ASSERT_EQ(ladder.size(), 5U);
  EXPECT_EQ(std::min(ladder[0].name, ladder[1].name), "rule-based");
  EXPECT_EQ(std::max(ladder[0].name, ladder[1].name), "simple");
  std::int64_t games = 0;
  for (std::size_t i = 0; i < ladder.size(); ++i) {
    const LadderEntry& entry = ladder[i];
    EXPECT_NEAR(static_cast<double>(entry.games), 4 * 70 * 4 / 5.0, 4) << entry.name;
    EXPECT_EQ(entry.games, 4 * std::ssize(entry.walls));
    EXPECT_NEAR(entry.places[0] + entry.places[1] + entry.places[2] + entry.places[3], 1, 1e-12);
    EXPECT_NEAR(entry.place.mean,
                entry.places[0] + 2 * entry.places[1] + 3 * entry.places[2] + 4 * entry.places[3], 1e-12);
    EXPECT_EQ(entry.history.back().mu, entry.rating.mu);
    EXPECT_TRUE(std::ranges::is_sorted(entry.walls));
    if (i > 0) EXPECT_LE(entry.rating.ordinal(), ladder[i - 1].rating.ordinal());
    games += entry.games;
  }
  EXPECT_EQ(games, 4 * 4 * 70);
}

TEST(Ladder, DoesNotDependOnThreads) {
  const int before = num_threads();
  const auto ordinals = [&](int threads) {
    set_num_threads(threads);
    std::vector<double> all;
    for (const LadderEntry& entry : run_ladder(players(kFive), short_games(9)))
      all.push_back(entry.rating.ordinal());
    return all;
  };
  const auto one = ordinals(1), three = ordinals(3);
  set_num_threads(before);
  EXPECT_EQ(one, three);
}

TEST(Ladder, FewerThanFourPlayersOrTwoOfOneNameAreRefused) {
  EXPECT_THROW(run_ladder(players({"simple", "random", "tsumogiri"}), short_games(1)), InvalidConfig);
  EXPECT_THROW(run_ladder(players({"simple", "random", "tsumogiri", "simple"}), short_games(1)),
               InvalidConfig);
  EXPECT_THROW(run_ladder(players(kFive), short_games(0)), InvalidConfig);
}

}  // namespace
}  // namespace ingot::mahjong
