#include "ingot/rl/mahjong_review.h"

#include <algorithm>
#include <numeric>

#include "tests/mahjong/games.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/mahjong/labels.h"

namespace ingot {
namespace {

class ReviewTest : public ::testing::Test {
 protected:
  static mahjong::GameLog round() {
    mahjong::Rules rules;
    rules.length = mahjong::GameLength::SingleRound;
    mahjong::GameLog log = mahjong::read_mjai(to_mjai(mahjong::simple_game(3, rules)), "game.json", rules);
    log.names = {"A", "</script><b>", "C", "D"};
    return log;
  }
  GameReview review(std::int64_t channels = 96) const {
    InitSource source(2);
    const DualPoolNet net(
        source,
        {.input_channels = channels, .channels = 8, .blocks = 1, .norm_groups = 4, .se_reduction = 4});
    return review_game(round(), net, "model:net");
  }
};

TEST_F(ReviewTest, EveryDecisionHasTheNetworksOpinionAndThePlayersChoice) {
  const GameReview found = review();
  const mahjong::LabelledGame labelled = mahjong::label_game(round());
  ASSERT_EQ(found.decisions.size(), labelled.decisions.size());
  for (std::size_t i = 0; i < found.decisions.size(); ++i) {
    const ReviewedDecision& d = found.decisions[i];
    EXPECT_EQ(d.chosen, labelled.decisions[i].action);
    EXPECT_EQ(d.policy.size(), static_cast<std::size_t>(__builtin_popcountll(labelled.decisions[i].mask)));
    EXPECT_EQ(found.frames[d.frame].decision, static_cast<std::int64_t>(i));
    float sum = 0;
    for (const auto& [action, probability] : d.policy) {
      sum += probability;
      EXPECT_LE(probability, d.policy.front().second);
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_NEAR(std::accumulate(d.places.begin(), d.places.end(), 0.0F), 1, 1e-5);
    EXPECT_EQ(d.cost() == 0, d.agrees() || d.policy[0].second == d.policy[1].second);
    for (const float risk : d.danger) EXPECT_TRUE(risk > 0 && risk < 1);
  }
  const std::vector<std::size_t> mistakes = found.mistakes(2);
  EXPECT_FALSE(mistakes.empty());
  for (std::size_t i = 1; i < mistakes.size(); ++i)
    EXPECT_LE(found.decisions[mistakes[i]].cost(), found.decisions[mistakes[i - 1]].cost());
}

TEST_F(ReviewTest, ThePageHoldsTheGameAndNoNameEndsItsScript) {
  const GameReview found = review();
  const std::string page = review_page(found, 1);
  EXPECT_EQ(page.find("{{"), std::string::npos);
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos);  // it needs nothing else
  const std::string mark = R"(<script id="data" type="application/json">)";
  const std::size_t begin = page.find(mark) + mark.size();
  const auto data =
      parse_json<nlohmann::json>(page.substr(begin, page.find("</script>", begin) - begin), "page");
  EXPECT_EQ(data["seat"], 1);
  EXPECT_EQ(data["names"][1], "</script><b>");
  EXPECT_EQ(data["frames"].size(), found.frames.size());
  EXPECT_EQ(data["decisions"].size(), found.decisions.size());
  EXPECT_EQ(data["rounds"].size(), 1U);
  EXPECT_FALSE(data["rounds"][0]["result"].get<std::string>().empty());
}

TEST_F(ReviewTest, ANetworkOfAnotherGameIsRefused) { EXPECT_THROW(review(12), InvalidConfig); }

}  // namespace
}  // namespace ingot
