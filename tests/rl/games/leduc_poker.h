#pragma once

#include <array>
#include <functional>

#include "ingot/rl/environment.h"

namespace ingot::test {

/// Southey and others 2005: two each of three ranks, two players, an ante of 1, two rounds of bets of 2 and
/// then 4 with at most two raises, and a common card between them. A pair with it wins, else the higher rank.
/// 0 folds (against a bet alone), 1 checks or calls, 2 bets or raises.
struct LeducPoker {
  static constexpr int kRanks = 3, kMoves = 4;  // moves of a round: check, raise, raise, call
  static constexpr int kObservation = 2 * kRanks + 2 * kMoves * 2;
  std::array<int, 2> cards;  // ranks
  int board;                 // its rank is known from the start and shown in the second round
  std::array<std::array<int, kMoves>, 2> history;
  std::array<int, 2> moves, paid;
  int round, raises, to_move;

  static EnvironmentSpec spec() { return {.players = 2, .actions = 3, .observation = {kObservation}}; }
  static LeducPoker dealt(int first, int second, int board) {
    LeducPoker game{};
    game.cards = {first, second};
    game.board = board;
    game.paid = {1, 1};
    return game;
  }
  void begin(Rng& random) {
    std::array<int, 6> deck = {0, 0, 1, 1, 2, 2};
    for (std::uint64_t i = 0; i < 3; ++i) std::swap(deck[i], deck[i + random.below(6 - i)]);
    *this = dealt(deck[0], deck[1], deck[2]);
  }
  int player() const { return to_move; }
  void observe(std::span<float> out) const {
    out[static_cast<std::size_t>(cards[static_cast<std::size_t>(to_move)])] = 1;
    if (round == 1) out[static_cast<std::size_t>(kRanks + board)] = 1;
    for (int r = 0; r < 2; ++r)
      for (int m = 0; m < moves[static_cast<std::size_t>(r)]; ++m)
        out[static_cast<std::size_t>(2 * kRanks + (r * kMoves + m) * 2 +
                                     history[static_cast<std::size_t>(r)][static_cast<std::size_t>(m)] - 1)] =
            1;
  }
  bool may(int action) const {
    if (action == 0) return paid[0] != paid[1];
    return action == 1 || raises < 2;
  }
  void legal(std::span<float> out) const {
    for (int action = 0; action < 3; ++action)
      out[static_cast<std::size_t>(action)] = may(action) ? 1.0F : 0.0F;
  }
  /// True when the game ends; `won` is what the first player wins.
  bool move(int action, int& won) {
    const auto self = static_cast<std::size_t>(to_move), other = 1 - self;
    if (action == 0) {
      won = to_move == 0 ? -paid[0] : paid[1];
      return true;
    }
    auto& made = moves[static_cast<std::size_t>(round)];
    history[static_cast<std::size_t>(round)][static_cast<std::size_t>(made++)] = action;
    paid[self] = paid[other];
    if (action == 2) {
      paid[self] += round == 0 ? 2 : 4;
      ++raises;
    } else if (made > 1) {  // a call, or the second check
      if (round == 1) return won = showdown(), true;
      round = 1;
      raises = 0;
      to_move = 0;
      return false;
    }
    to_move = static_cast<int>(other);
    return false;
  }
  bool act(std::int32_t action, std::span<float> rewards) {
    int won = 0;
    if (!move(action, won)) return false;
    rewards[0] = static_cast<float>(won);
    rewards[1] = -rewards[0];
    return true;
  }
  int showdown() const {
    const auto strength = [&](int card) { return card == board ? kRanks : card; };
    const int first = strength(cards[0]), second = strength(cards[1]);
    return first == second ? 0 : first > second ? paid[1] : -paid[0];
  }
};

/// Chances of the three actions where the game stands; it may depend on what observe() tells alone.
using LeducPolicy = std::function<std::array<double, 3>(const LeducPoker&)>;

/// What `player` wins on average with the best strategy against `opponent`, over all deals. It knows its
/// card, the moves and in the second round the common card: it chooses for all the opponent's cards at once.
class LeducBestResponse {
 public:
  LeducBestResponse(const LeducPolicy& opponent, int player) : opponent_(opponent), player_(player) {}
  double value() const {
    double total = 0;
    for (int own = 0; own < LeducPoker::kRanks; ++own) {
      Weights weights{};
      for (int other = 0; other < LeducPoker::kRanks; ++other)
        weights[static_cast<std::size_t>(other)] = (own == other ? 1.0 : 2.0) / 5 / 3;
      total += value(game(own, 0, -1), weights);
    }
    return total;
  }

 private:
  using Weights = std::array<double, LeducPoker::kRanks>;  // of the opponent's cards, its moves included

  LeducPoker game(int own, int other, int board) const {
    return player_ == 0 ? LeducPoker::dealt(own, other, board) : LeducPoker::dealt(other, own, board);
  }
  static LeducPoker with(LeducPoker position, int player, int card) {
    position.cards[static_cast<std::size_t>(player)] = card;
    return position;
  }
  double value(const LeducPoker& position, const Weights& weights) const {
    if (position.round == 1 && position.board < 0) return over_boards(position, weights);
    double best = -1e9, sum = 0;
    for (int action = 0; action < 3; ++action) {
      if (!position.may(action)) continue;
      Weights after = weights;
      if (position.player() != player_)
        for (int card = 0; card < LeducPoker::kRanks; ++card)
          after[static_cast<std::size_t>(card)] *=
              opponent_(with(position, 1 - player_, card))[static_cast<std::size_t>(action)];
      const double worth = after_move(position, action, after);
      best = std::max(best, worth);
      sum += worth;
    }
    return position.player() == player_ ? best : sum;
  }
  double after_move(const LeducPoker& position, int action, const Weights& weights) const {
    LeducPoker next = position;
    int won = 0;
    if (!next.move(action, won)) return value(next, weights);
    double sum = 0;
    for (int card = 0; card < LeducPoker::kRanks; ++card) {
      LeducPoker end = with(position, 1 - player_, card);
      end.move(action, won);
      sum += weights[static_cast<std::size_t>(card)] * (player_ == 0 ? won : -won);
    }
    return sum;
  }
  double over_boards(LeducPoker position, const Weights& weights) const {
    double sum = 0;
    const int own = position.cards[static_cast<std::size_t>(player_)];
    for (int board = 0; board < LeducPoker::kRanks; ++board) {
      Weights after = weights;
      for (int card = 0; card < LeducPoker::kRanks; ++card)
        after[static_cast<std::size_t>(card)] *= (2.0 - (board == own) - (board == card)) / 4;
      position.board = board;
      sum += value(position, after);
    }
    return sum;
  }

  const LeducPolicy& opponent_;
  int player_;
};

/// How much both lose against best responses, together: 0 for an equilibrium.
inline double leduc_exploitability(const LeducPolicy& policy) {
  return LeducBestResponse(policy, 0).value() + LeducBestResponse(policy, 1).value();
}

}  // namespace ingot::test
