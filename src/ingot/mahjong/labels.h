#pragma once

#include <string>
#include <vector>

#include "ingot/mahjong/log.h"
#include "ingot/mahjong/symmetry.h"

namespace ingot::mahjong {

/// The orders that four players can end a game in.
inline constexpr int kOrders = 24;
/// Which of them: `order[k]` is who ends k-th, counted from the player itself (0) to its left.
int order_index(const std::array<int, 4>& order);
std::array<int, 4> order_of(int index);
/// The order of final scores as `seat` sees it, ties by starting seat.
int order_seen_by(int seat, const std::array<std::int32_t, 4>& final_scores, const Rules& rules);

/// What the rank head reads beside the position: scores / 100000 from the player on, the six gaps between
/// them / 30000, what each lacks of the place above it / 10000, round / 8, honba / 10.
inline constexpr int kRankContext = 16;
std::array<float, kRankContext> rank_context(const Observation& observation);
/// The same from the scores by seat.
std::array<float, kRankContext> rank_context(int seat, const std::array<std::int32_t, 4>& scores, int round,
                                             int honba);

/// One decision of a game with what there is to learn from it.
struct LabelledDecision {
  Observation observation;
  std::uint64_t mask = 0;           ///< of the 46 actions; two or more are legal
  std::uint8_t action = 0;          ///< the one that was chosen
  std::uint8_t order = kOrders;     ///< how the game ended; kOrders where the log breaks off before
  std::uint8_t tenpai = 0;          ///< bit per opponent, next player first
  std::uint16_t round = 0;          ///< of the game, counted from 0
  std::array<KindSet, 3> danger{};  ///< tiles that each opponent could win on if they were discarded now
  float round_return = 0;           ///< change of the player's score until the end of the round / 10000
  float game_return = 0;            ///< until the end of the game

  /// The same in the renamed suits, labels too.
  LabelledDecision permuted(const SuitPermutation& suits) const;
};

/// A game's decisions in order of time, round by round; forced ones are left out.
struct LabelledGame {
  std::vector<LabelledDecision> decisions;
  std::vector<RoundStart> starts;        ///< of the rounds
  std::array<std::int32_t, 4> scores{};  ///< at the end
  bool over = false;                     ///< the log goes to the game's end
  int rounds = 0;
};

/// Replays a log. Throws as replay() does.
LabelledGame label_game(const GameLog& log);

/// The tiles that a player could win on by ron if they were discarded now.
KindSet ron_kinds(const PublicState& pub, const PrivateState& own, int player);

}  // namespace ingot::mahjong
