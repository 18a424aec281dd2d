#include <algorithm>
#include <filesystem>
#include <map>

#include "tests/mahjong/games.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"
#include "ingot/mahjong/decision_stream.h"

namespace ingot::mahjong {
namespace {

// Six short games, one of them twice, one cut off in the middle of a line.
class DatasetTest : public ::testing::Test {
 protected:
  static constexpr int kGames = 6;
  void SetUp() override {
    Rules rules;
    rules.length = GameLength::SingleRound;
    for (int i = 0; i < kGames; ++i)
      write_log(path(i), to_mjai(simple_game(static_cast<std::uint64_t>(i), rules)));
    std::filesystem::copy(path(2), directory_.at("again.json.gz"));
    write_file_atomically(directory_.at("broken.json"), read_maybe_gzip(path(1)).substr(0, 900));
  }
  std::string path(int i) const { return directory_.at("game" + std::to_string(i) + ".json.gz"); }
  GameIndex index() const {
    Rules rules;
    rules.length = GameLength::SingleRound;
    return GameIndex::build({directory_.path()}, rules, directory_.at("index.jsonl"));
  }
  // Decisions told apart by what their player sees.
  static std::string key(const LabelledDecision& d) {
    std::string key = std::to_string(d.mask) + "/" + std::to_string(d.observation.seat) + "/" +
                      std::to_string(d.observation.pub.river_size);
    for (const Tile tile : d.observation.own.hand.tiles()) key += "," + std::to_string(tile);
    return key;
  }
  test::TemporaryDirectory directory_;
};

TEST_F(DatasetTest, TheIndexNamesWhatIsCorruptAndCountsEqualGamesOnce) {
  const GameIndex first = index();
  EXPECT_EQ(first.games().size(), 6U);
  EXPECT_EQ(first.duplicates(), 1);
  ASSERT_EQ(first.refused().size(), 1U);
  EXPECT_NE(first.refused()[0].error.find("broken.json"), std::string::npos) << first.refused()[0].error;
  EXPECT_GT(first.decisions(), 60);

  const GameIndex cached = index();
  EXPECT_EQ(cached.digest(), first.digest());
  EXPECT_EQ(cached.decisions(), first.decisions());
  EXPECT_EQ(cached.refused().size(), 1U);

  GameIndex rest = index();
  const GameIndex held_out = rest.take_out(0.5);
  EXPECT_EQ(rest.games().size() + held_out.games().size(), 6U);
  EXPECT_EQ(rest.decisions() + held_out.decisions(), first.decisions());
  EXPECT_THROW(GameIndex::build({directory_.at("nowhere")}), IoError);
}

TEST_F(DatasetTest, AnEpochHasEveryDecisionOnceInAnotherOrderThanTheNext) {
  const GameIndex games = index();
  DecisionStream stream(games, {.pool_games = 2, .permute_suits = false});
  const auto total = static_cast<std::size_t>(games.decisions());
  std::map<std::string, int> seen;
  std::vector<std::string> orders[2];
  for (auto& order : orders)
    for (std::size_t i = 0; i < total; ++i) {
      order.push_back(key(stream.next(1)[0]));
      ++seen[order.back()];
    }
  EXPECT_NE(orders[0], orders[1]);
  for (const auto& [decision, count] : seen) EXPECT_EQ(count % 2, 0) << decision;
  std::ranges::sort(orders[0]);
  std::ranges::sort(orders[1]);
  EXPECT_EQ(orders[0], orders[1]);
}

TEST_F(DatasetTest, APositionLeadsBackToTheSameDecision) {
  const GameIndex games = index();
  const DecisionStreamOptions options{.seed = 7, .pool_games = 2};
  DecisionStream whole(games, options);
  for (const std::size_t taken :
       {std::size_t{1}, std::size_t{40}, static_cast<std::size_t>(games.decisions()) + 9}) {
    whole.next(taken);
    DecisionStream resumed(games, options);
    resumed.seek(whole.position());
    DecisionStream ahead(games, options);
    ahead.seek(whole.position());
    const auto wanted = ahead.next(70);
    std::vector<std::string> keys;
    for (const LabelledDecision& d : wanted) keys.push_back(key(d));
    const auto found = resumed.next(70);
    const auto goes_on = whole.next(70);
    for (std::size_t i = 0; i < 70; ++i) {
      EXPECT_EQ(key(found[i]), keys[i]);
      EXPECT_EQ(key(goes_on[i]), keys[i]);
    }
  }
}

TEST_F(DatasetTest, AGameThatIsDamagedLaterIsPassedOverAndNamed) {
  const GameIndex games = index();
  write_file_atomically(path(3), "{");
  DecisionStream stream(games, {.pool_games = 2});
  stream.next(static_cast<std::size_t>(games.decisions()));
  ASSERT_GE(stream.skipped().size(), 1U);
  EXPECT_NE(stream.skipped()[0].find("game3.json.gz"), std::string::npos) << stream.skipped()[0];
  for (int i = 0; i < kGames; ++i) std::filesystem::remove(path(i));
  std::filesystem::remove(directory_.at("again.json.gz"));
  DecisionStream none(games, {.pool_games = 2});
  EXPECT_THROW(none.next(1), IoError);
}

}  // namespace
}  // namespace ingot::mahjong
