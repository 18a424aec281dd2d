#include "ingot/mahjong/labels.h"

#include <set>

#include "tests/mahjong/data.h"
#include "tests/mahjong/games.h"
#include <gtest/gtest.h>

#include "ingot/mahjong/policy.h"

namespace ingot::mahjong {
namespace {

const GameLog& game() {
  static const GameLog kLog = read_mjai(to_mjai(simple_game(3)), "game");
  return kLog;
}

TEST(Labels, OrdersAndTheirNumbersAreOneToOne) {
  std::set<std::array<int, 4>> orders;
  for (int i = 0; i < kOrders; ++i) {
    EXPECT_EQ(order_index(order_of(i)), i);
    orders.insert(order_of(i));
  }
  EXPECT_EQ(orders.size(), 24U);
  // Scores of seats 0 to 3; as seat 2 sees it, seat 3 (its next) leads, then 0, itself, 1.
  EXPECT_EQ(order_of(order_seen_by(2, {30'000, 5'000, 20'000, 45'000}, {})), (std::array{1, 2, 0, 3}));
}

TEST(Labels, EveryDecisionHasItsActionAmongTheLegalOnesAndReturnsThatAddUp) {
  const LabelledGame labelled = label_game(game());
  EXPECT_TRUE(labelled.over);
  EXPECT_EQ(static_cast<std::size_t>(labelled.rounds), game().rounds.size());
  EXPECT_GT(labelled.decisions.size(), 200U);
  int round = 0;
  for (const LabelledDecision& d : labelled.decisions) {
    EXPECT_TRUE(d.mask >> d.action & 1);
    EXPECT_EQ(d.mask, policy_mask(legal_actions(d.observation)));
    EXPECT_GE(d.round, round);
    round = d.round;
    const std::size_t seat = d.observation.seat;
    const auto score = static_cast<float>(d.observation.pub.seats[seat].score);
    EXPECT_NEAR(score + 10'000 * d.game_return, static_cast<float>(labelled.scores[seat]), 0.5);
    EXPECT_EQ(d.order, order_seen_by(static_cast<int>(seat), labelled.scores, game().rules));
  }
  const LabelledDecision& last = labelled.decisions.back();  // the sticks that are left come at the end
  EXPECT_NEAR(last.round_return, last.game_return, 0.5);
}

TEST(Labels, WhoDeclaredRiichiIsTenpaiAndWinsOnWhatItWaitsFor) {
  const LabelledGame labelled = label_game(game());
  int in_riichi = 0, won = 0;
  for (const LabelledDecision& d : labelled.decisions) {
    for (std::size_t i = 0; i < 3; ++i) {
      const Seat& seat = d.observation.pub.seats[(d.observation.seat + 1 + i) % 4];
      const bool tenpai = (d.tenpai >> i & 1) != 0;
      if (seat.riichi == RiichiState::Accepted) {
        ++in_riichi;
        EXPECT_TRUE(tenpai);
        EXPECT_EQ(d.danger[i] & seat.safe_after_riichi, 0U);
      }
      if (!tenpai) EXPECT_EQ(d.danger[i], 0U);
      EXPECT_EQ(d.danger[i] & seat.river_kinds, 0U);  // furiten
    }
    // A ron that was called on this discard is one that the labels knew of.
    if (d.action != kPolicyWin || d.observation.pub.phase != Phase::Reaction) continue;
    ++won;
    for (const LabelledDecision& before : labelled.decisions) {
      if (before.round != d.round || before.observation.seat != d.observation.pub.actor) continue;
      if (before.observation.pub.river_size + 1 != d.observation.pub.river_size || before.action >= kTiles)
        continue;
      const std::size_t winner = (d.observation.seat + 4U - before.observation.seat) % 4 - 1;
      EXPECT_TRUE(before.danger[winner] >> kind_of(d.observation.pub.claimed) & 1);
    }
  }
  EXPECT_GT(in_riichi, 20);
  EXPECT_GT(won, 0);
}

TEST(Labels, AGameInRenamedSuitsHasRenamedLabels) {
  const LabelledGame labelled = label_game(game());
  for (std::size_t i = 0; i < labelled.decisions.size(); i += 17) {
    const LabelledDecision& d = labelled.decisions[i];
    for (int number = 0; number < 6; ++number) {
      const SuitPermutation suits = SuitPermutation::number(number);
      const LabelledDecision renamed = d.permuted(suits);
      EXPECT_EQ(renamed.mask, policy_mask(legal_actions(renamed.observation)));
      EXPECT_TRUE(renamed.mask >> renamed.action & 1);
      const LabelledDecision back = renamed.permuted(suits.inverse());
      EXPECT_EQ(back.action, d.action);
      EXPECT_EQ(back.danger, d.danger);
    }
  }
}

}  // namespace
}  // namespace ingot::mahjong
