#include <algorithm>
#include <filesystem>
#include <map>

#include "tests/mahjong/games.h"
#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ingot/base/files.h"
#include "ingot/mahjong/decision_stream.h"
#include "ingot/mahjong/game_filter.h"

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

// Eight short games. Ann sits in all of them, each other player in some.
class GameFilterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rules_.length = GameLength::SingleRound;
    const std::array<std::string, 4> others[] = {{"ann", "bob", "cid", "dee"}, {"eve", "ann", "bob", "cid"}};
    for (std::uint64_t i = 0; i < 8; ++i)
      write_log(directory_.at(fmt::format("game{}.json.gz", i)),
                to_mjai(simple_game(i + 20, rules_), others[i < 6 ? 0 : 1]));
  }
  GameIndex index(const std::string& cache = {}) const {
    return GameIndex::build({directory_.path()}, rules_, cache);
  }
  // Decisions of a whole epoch by the names of their players, as the stream gives them.
  std::map<std::string, int> learned(const GameFilter& filter) const {
    GameIndex games = index();
    apply_filter(games, filter);
    std::map<std::string, int> by_name;
    for (const IndexedGame& game : games.games()) {
      GameIndex one = GameIndex::build({game.path}, rules_);
      one.keep_seats([&](const IndexedGame&, const IndexedSeat& seat) {
        return std::ranges::any_of(game.seats,
                                   [&](const IndexedSeat& of) { return of.kept && of.name == seat.name; });
      });
      DecisionStream stream(one, {.permute_suits = false});
      for (const LabelledDecision& d : stream.next(static_cast<std::size_t>(one.decisions())))
        ++by_name[game.seats[d.observation.seat].name];
    }
    return by_name;
  }
  Rules rules_;
  test::TemporaryDirectory directory_;
};

TEST_F(GameFilterTest, RecordsOfPlayersAreWhatTheirGamesSay) {
  const PlayerRecords records = player_records(index());
  ASSERT_EQ(records.size(), 5U);
  EXPECT_EQ(records.at("ann").games, 8);
  EXPECT_EQ(records.at("dee").games, 6);
  EXPECT_EQ(records.at("eve").rounds, 2);
  std::int64_t places = 0, wins = 0, deal_ins = 0;
  for (const auto& [name, record] : records) {
    places += record.places;
    wins += record.wins;
    deal_ins += record.deal_ins;
  }
  EXPECT_EQ(places, 8 * (1 + 2 + 3 + 4));
  std::int64_t expected_wins = 0, expected_deal_ins = 0;
  const GameIndex games = index();
  for (const IndexedGame& game : games.games()) {
    const GameLog log = read_log(game.path, rules_);
    for (const LogRound& round : log.rounds)
      for (const Event& event : round.events)
        if (event.type == EventType::Hora) {
          ++expected_wins;
          expected_deal_ins += event.target != event.actor ? 1 : 0;
        }
  }
  EXPECT_GT(wins, 3);
  EXPECT_EQ(wins, expected_wins);
  EXPECT_EQ(deal_ins, expected_deal_ins);  // no double ron in these
}

TEST_F(GameFilterTest, OnlyDecisionsOfPlayersWithinItsBoundsAreLearnedFrom) {
  const auto all = learned({});
  EXPECT_EQ(all.size(), 5U);
  const auto often = learned({.min_games = 8});
  EXPECT_EQ(often.at("ann"), all.at("ann"));
  EXPECT_FALSE(often.contains("dee"));
  EXPECT_EQ(learned({.players = {"eve"}}), (std::map<std::string, int>{{"eve", all.at("eve")}}));

  const PlayerRecords records = player_records(index());
  for (const auto& [name, count] : learned({.max_mean_place = 2.5}))
    EXPECT_LE(records.at(name).mean_place(), 2.5) << name;
  for (const auto& [name, count] : learned({.max_deal_in_rate = 0.2}))
    EXPECT_LE(records.at(name).deal_in_rate(), 0.2) << name;
  for (const auto& [name, count] : learned({.min_win_rate = 0.2}))
    EXPECT_GE(records.at(name).win_rate(), 0.2) << name;
}

TEST_F(GameFilterTest, TheCacheKeepsWhatFiltersNeed) {
  const std::string cache = directory_.at("index.jsonl");
  GameIndex first = index(cache), second = index(cache);
  const FilterResult a = apply_filter(first, {.players = {"bob"}}),
                     b = apply_filter(second, {.players = {"bob"}});
  EXPECT_GT(a.decisions, 0);
  EXPECT_EQ(a.decisions, b.decisions);
  EXPECT_EQ(first.digest(), second.digest());
  EXPECT_NE(first.digest(), index().digest());  // a resumed run notices another filter
  EXPECT_EQ(a.players, 4);
}

TEST_F(GameFilterTest, AFilterThatLeavesNothingAndUnknownPlayersAreRefused) {
  GameIndex games = index();
  EXPECT_THROW(apply_filter(games, {.min_games = 9}), InvalidConfig);
  games = index();
  EXPECT_THROW(apply_filter(games, {.players = {"zoe"}}), InvalidConfig);
  write_log(directory_.at("nameless.json"), to_mjai(simple_game(1, rules_)));
  GameIndex nameless = GameIndex::build({directory_.at("nameless.json")}, rules_);
  EXPECT_EQ(apply_filter(nameless, {.whole_games = true}).games, 0);
  EXPECT_THROW(apply_filter(nameless, {.min_games = 1}), InvalidConfig);
}

}  // namespace
}  // namespace ingot::mahjong
