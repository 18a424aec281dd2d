#include <algorithm>
#include <cmath>
#include <vector>

#include "games.h"
#include "scene.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/mahjong/decision_outlook.h"
#include "ingot/mahjong/outlook_channels.h"
#include "ingot/mahjong/policy.h"

namespace ingot::mahjong {
namespace {

// Channels, as docs/mahjong.md counts them from the first of the outlook.
constexpr std::size_t kAttack = 0, kBestAttack = 2, kBestRiichi = 4, kDealIn = 5, kCost = 6, kFold = 8,
                      kRiichiGain = 11, kKanGain = 13, kPonGain = 18, kChiLowGain = 19, kPass = 23,
                      kDora = 24;

class Outlook {
 public:
  explicit Outlook(const Observation& o) : values_(static_cast<std::size_t>(kOutlookChannels) * kKinds) {
    encode_outlook(o, values_);
  }
  float at(std::size_t channel, std::size_t kind) const { return values_[channel * kKinds + kind]; }
  bool finite() const {
    return std::ranges::all_of(values_, [](float v) { return std::isfinite(v); });
  }
  bool nobody_threatens() const {
    return std::all_of(values_.begin() + kDealIn * kKinds, values_.begin() + (kDealIn + 1) * kKinds,
                       [](float v) { return v == 0; });
  }

 private:
  std::vector<float> values_;
};

// Each decision of a game in which `choose` plays all seats, with its action.
template <class Choose, class Seen>
void play(const Rules& rules, std::uint64_t seed, const Choose& choose, const Seen& seen) {
  Table t = start_game(rules, seed_from_number(seed));
  while (!t.over()) {
    if (t.pub.phase == Phase::RoundOver) {
      next_round(t);
      continue;
    }
    const int seat = __builtin_ctz(t.to_act());
    const ActionList legal = legal_actions(t, seat);
    const Observation o = observe(t, seat);
    const Action action = choose(o, legal);
    if (legal.size() > 1) seen(o, legal, action);
    apply(t, seat, action);
  }
}
// Of the rule-based player.
template <class Seen>
void watch(std::uint64_t seed, const Seen& seen) {
  Rules rules;
  rules.length = GameLength::East;
  RuleBasedPlayer player;
  play(
      rules, seed, [&](const Observation& o, const ActionList& legal) { return player.select(o, legal); },
      seen);
}

TEST(OutlookChannels, WhereNobodyThreatensTheRuleBasedPlayerDiscardsTheBestOfThem) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 2; ++seed)
    watch(seed, [&](const Observation& o, const ActionList&, const Action& action) {
      if (action.type != ActionType::Discard || o.pub.declaring) return;
      if (o.pub.seats[o.seat].riichi != RiichiState::None) return;
      const Outlook outlook(o);
      if (!outlook.nobody_threatens()) return;
      ++compared;
      // Among equals it keeps what may yet be useful, which it counts for less than 0.0004 places.
      EXPECT_GT(outlook.at(kBestAttack, kind_of(action.tile)), 0.9F) << to_string(action);
    });
  EXPECT_GT(compared, 50);
}

TEST(OutlookChannels, ClaimsThatItTakesGain) {
  int taken = 0, left = 0;
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    watch(seed, [&](const Observation& o, const ActionList& legal, const Action& action) {
      const Outlook outlook(o);
      for (const Action& one : legal) {
        if (one.type != ActionType::Chi && one.type != ActionType::Pon) continue;
        const auto channel = kChiLowGain + static_cast<std::size_t>(policy_index(one) - kPolicyChiLow);
        const bool gains = outlook.at(channel, 0) > 0;
        if (one == action) EXPECT_TRUE(gains) << to_string(one);
        (one == action ? taken : left) += one == action || !gains ? 1 : 0;
      }
    });
  EXPECT_GT(taken, 5);
  EXPECT_GT(left, 20);
}

// The channels that hold anything.
std::vector<std::size_t> written(const Observation& o) {
  const Outlook outlook(o);
  std::vector<std::size_t> channels;
  for (std::size_t channel = 0; channel < kOutlookChannels; ++channel)
    for (std::size_t kind = 0; kind < kKinds; ++kind)
      if (outlook.at(channel, kind) != 0) {
        channels.push_back(channel);
        break;
      }
  return channels;
}
bool has(const std::vector<std::size_t>& channels, std::size_t channel) {
  return std::ranges::find(channels, channel) != channels.end();
}

TEST(OutlookChannels, OfAHandThatMayDeclareRiichiCompareItWithTheBestDiscard) {
  Scene scene({.hands = {"234m567p345s67s99p", "", "", ""}, .draws = "1z"});
  const Observation before = observe(scene.table, 0);
  const DecisionOutlook decision(before);
  const Kind drawn = kind_of(tile("1z"));
  const double gain = decision.riichi(drawn) - decision.discard(drawn).worth();
  const Outlook outlook(before);
  EXPECT_NEAR(outlook.at(kRiichiGain, 7), std::clamp(10 * gain, -1.0, 1.0), 1e-5);
  EXPECT_NEAR(outlook.at(kRiichiGain + 1, 7), std::clamp(200 * gain, -1.0, 1.0), 1e-5);
  EXPECT_NEAR(outlook.at(kAttack, drawn), 2 * decision.discard(drawn).attack, 1e-5);
  EXPECT_EQ(outlook.at(kBestAttack, drawn), 1);
  EXPECT_EQ(outlook.at(kBestRiichi, drawn), 1);
  EXPECT_EQ(outlook.at(kDora, kind_of(tile("4z"))), 1);  // the indicator is 3z
  EXPECT_FALSE(has(written(before), kKanGain));
  EXPECT_FALSE(has(written(before), kPass));
}

TEST(OutlookChannels, WhileRiichiIsDeclaredRankItsDiscardsAndAfterwardsAreEmpty) {
  Scene scene({.hands = {"234m567p345s67s99p", "", "", ""}, .draws = "8s"});  // waits on 5s 8s, or on 3s 6s
  apply(scene.table, 0, Action::of(ActionType::Riichi));
  const Observation o = observe(scene.table, 0);
  const DecisionOutlook decision(o);
  const std::vector<std::size_t> declaring = written(o);
  EXPECT_TRUE(has(declaring, kBestRiichi));
  EXPECT_FALSE(has(declaring, kAttack));
  EXPECT_FALSE(has(declaring, kRiichiGain));
  const Kind low = kind_of(tile("3s")), high = kind_of(tile("8s"));
  const double best = std::max(decision.riichi(low), decision.riichi(high));
  for (const Kind kind : {low, high})
    EXPECT_NEAR(Outlook(o).at(kBestRiichi, kind), std::max(0.0, 1 + 200 * (decision.riichi(kind) - best)),
                1e-4);
  apply(scene.table, 0, Action::discard(tile("8s"), true));
  scene.pass_turns(3);
  EXPECT_TRUE(written(observe(scene.table, 0)).empty());  // nothing is left to weigh
}

TEST(OutlookChannels, OfAClaimCompareTheCallWithPassing) {
  Scene scene({.hands = {"55z44z23m678p4588s", "", "", ""}, .draws = "9s5z"});
  scene.discard("9s");
  apply(scene.table, 1, Action::discard(tile("5z"), true));
  const Observation claim = observe(scene.table, 0);
  const DecisionOutlook decision(claim);
  const double passed = decision.pass().worth(), gain = decision.after_call(pon("5z")) - passed;
  const Outlook outlook(claim);
  EXPECT_NEAR(outlook.at(kPass, 3), 4 * passed, 1e-5);
  EXPECT_NEAR(outlook.at(kAttack, 3), 2 * decision.pass().attack, 1e-5);
  EXPECT_NEAR(outlook.at(kPonGain, 3), std::clamp(10 * gain, -1.0, 1.0), 1e-5);
  EXPECT_GT(outlook.at(kPonGain, 3), 0);
  const std::vector<std::size_t> channels = written(claim);
  for (const std::size_t none : {kBestAttack, kBestRiichi, kRiichiGain, kKanGain, kChiLowGain})
    EXPECT_FALSE(has(channels, none)) << none;
}

TEST(OutlookChannels, OfAHandWithFourOfAKindTellWhatTheKanGains) {
  Scene scene({.hands = {"1111m456p789s223s", "", "", ""}, .draws = "9p"});
  const Observation o = observe(scene.table, 0);
  const DecisionOutlook decision(o);
  double best = -1e9;
  for_each_kind(o.own.hand.count.kinds(),
                [&](Kind kind) { best = std::max(best, decision.discard(kind).worth()); });
  const double gain = decision.after_kan(Action::ankan(kind_of(tile("1m")))) - best;
  EXPECT_NEAR(Outlook(o).at(kKanGain, 0), std::clamp(10 * gain, -1.0, 1.0), 1e-5);
  EXPECT_NEAR(Outlook(o).at(kKanGain + 1, 0), std::clamp(200 * gain, -1.0, 1.0), 1e-5);
}

TEST(OutlookChannels, AgainstARiichiTellWhatIsDangerousAndWhatFoldingCosts) {
  Scene scene({.hands = {"", "234m567p345s67s99p", "", ""}, .draws = "9m1z"});
  scene.discard("9m");
  scene.riichi("1z");
  scene.pass_turns(2);
  const Observation o = observe(scene.table, 0);
  const Outlook outlook(o);
  const DecisionOutlook decision(o);
  EXPECT_EQ(outlook.at(kDealIn, kind_of(tile("1z"))), 0);  // which it discarded itself
  int dangerous = 0;
  for_each_kind(o.own.hand.count.kinds(), [&](Kind kind) {
    EXPECT_NEAR(outlook.at(kDealIn, kind), 4 * decision.deal_in(kind), 1e-5);
    EXPECT_NEAR(outlook.at(kCost, kind), 8 * decision.deal_in_cost(kind), 1e-5);
    EXPECT_NEAR(outlook.at(kFold, kind), 8 * decision.discard(kind).fold, 1e-5);
    dangerous += outlook.at(kDealIn, kind) > 0 ? 1 : 0;
  });
  EXPECT_GT(dangerous, 5);
}

TEST(OutlookChannels, RefuseAnotherSize) {
  Scene scene({});
  std::vector<float> small(24 * kKinds);
  EXPECT_THROW(encode_outlook(observe(scene.table, 0), small), ShapeMismatch);
}

TEST(OutlookChannels, AreFiniteInRandomGames) {
  RandomPlayer random(5);
  int decisions = 0;
  for (std::uint64_t seed = 40; seed < 42; ++seed)
    play(
        {}, seed, [&](const Observation& o, const ActionList& legal) { return random.select(o, legal); },
        [&](const Observation& o, const ActionList&, const Action&) {
          EXPECT_TRUE(Outlook(o).finite());
          ++decisions;
        });
  EXPECT_GT(decisions, 200);
}

}  // namespace
}  // namespace ingot::mahjong
