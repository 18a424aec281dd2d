#include "ingot/mahjong/rating.h"

#include <array>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/source_dir.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot::mahjong {
namespace {

// tools/goldens/openskill_ratings.py: openskill 6.2.0 on the same games, ties included.
TEST(Rating, MovesAsOpenskillsPlackettLuceModel) {
  std::ifstream lines(test::source_dir() + "/tests/mahjong/goldens/openskill.txt");
  std::map<std::string, std::array<Rating, 8>> known;
  int games = 0;
  for (std::string line; std::getline(lines, line); ++games) {
    std::istringstream fields(line);
    std::string settings;
    std::size_t count = 0;
    fields >> settings >> count;
    std::vector<std::size_t> players(count);
    std::vector<double> ranks(count);
    std::vector<Rating> ratings(count), expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      fields >> players[i] >> ranks[i] >> expected[i].mu >> expected[i].sigma;
      ratings[i] = known[settings][players[i]];
    }
    ASSERT_TRUE(fields) << line;
    rate_game(ratings, ranks,
              settings == "wide" ? RatingModel{.beta = 2, .tau = 0.5, .kappa = 0.3} : RatingModel{});
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_NEAR(ratings[i].mu, expected[i].mu, 1e-10) << line;
      EXPECT_NEAR(ratings[i].sigma, expected[i].sigma, 1e-10) << line;
      known[settings][players[i]] = ratings[i];
    }
  }
  EXPECT_EQ(games, 60);
}

TEST(Rating, DependsOnDifferencesOfRatingsAlone) {
  std::array<Rating, 3> near{}, far{};
  for (Rating& player : far) player.mu += 1e5;  // exp(1e5 / c) alone is not a number
  const std::array<double, 3> ranks{2, 0, 1};
  rate_game(near, ranks);
  rate_game(far, ranks);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(far[i].mu - near[i].mu, 1e5, 1e-6);
}

TEST(Rating, AGameOfOnePlayerIsRefused) {
  std::array<Rating, 1> alone{};
  EXPECT_THROW(rate_game(alone, std::array<double, 1>{0}), InvalidConfig);
  std::array<Rating, 2> pair{};
  EXPECT_THROW(rate_game(pair, std::array<double, 1>{0}), InvalidConfig);
}

}  // namespace
}  // namespace ingot::mahjong
