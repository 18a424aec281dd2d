#include <algorithm>
#include <cmath>
#include <vector>

#include "games.h"
#include <gtest/gtest.h>

#include "ingot/mahjong/encoder.h"
#include "ingot/mahjong/outlook_channels.h"
#include "ingot/mahjong/policy.h"

namespace ingot::mahjong {
namespace {

// Channels, as docs/mahjong.md counts them from the first of the outlook.
constexpr std::size_t kBestAttack = 2, kDealIn = 5, kChiLowGain = 19;

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

// Each decision of games of the rule-based player, with its action.
template <class Seen>
void watch(std::uint64_t seed, const Seen& seen) {
  Rules rules;
  rules.length = GameLength::East;
  RuleBasedPlayer player;
  Table t = start_game(rules, seed_from_number(seed));
  while (!t.over()) {
    if (t.pub.phase == Phase::RoundOver) {
      next_round(t);
      continue;
    }
    const int seat = __builtin_ctz(t.to_act());
    const ActionList legal = legal_actions(t, seat);
    const Observation o = observe(t, seat);
    const Action action = player.select(o, legal);
    if (legal.size() > 1) seen(o, legal, action);
    apply(t, seat, action);
  }
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

TEST(OutlookChannels, AreFiniteInRandomGames) {
  ChaCha8 random(seed_from_number(5));
  int seen = 0;
  for (std::uint64_t game = 0; game < 2; ++game) {
    Table t = start_game({}, seed_from_number(40 + game));
    while (!t.over()) {
      if (t.pub.phase == Phase::RoundOver) {
        next_round(t);
        continue;
      }
      const int seat = __builtin_ctz(t.to_act());
      const ActionList legal = legal_actions(t, seat);
      ASSERT_TRUE(Outlook(observe(t, seat)).finite());
      ++seen;
      apply(t, seat, legal[random.below(static_cast<std::uint32_t>(legal.size()))]);
    }
  }
  EXPECT_GT(seen, 200);
}

}  // namespace
}  // namespace ingot::mahjong
