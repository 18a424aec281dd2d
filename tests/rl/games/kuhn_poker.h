#pragma once

#include <array>
#include <functional>

#include "ingot/rl/environment.h"

namespace ingot::test {

/// Kuhn 1950: three cards, two players, one bet. 0 passes (checks, folds), 1 bets (calls).
struct KuhnPoker {
  std::array<int, 2> cards;
  std::array<int, 3> history;
  int moves;

  static EnvironmentSpec spec() { return {.players = 2, .actions = 2, .observation = {7}, .hidden = {3}}; }
  void begin(Rng& random) {
    const auto first = static_cast<int>(random.below(3)), second = static_cast<int>(random.below(2));
    cards = {first, second < first ? second : second + 1};
    moves = 0;
  }
  int player() const { return moves % 2; }
  /// Which of the four places a player decides at: nothing, pass, bet, pass and bet.
  int place() const { return moves == 0 ? 0 : moves == 2 ? 3 : 1 + history[0]; }
  static void observe(int card, int place, std::span<float> out) {
    out[static_cast<std::size_t>(card)] = 1;
    out[static_cast<std::size_t>(3 + place)] = 1;
  }
  void observe(std::span<float> out) const {
    observe(cards[static_cast<std::size_t>(player())], place(), out);
  }
  /// The opponent's card.
  void observe_hidden(std::span<float> out) const {
    out[static_cast<std::size_t>(cards[static_cast<std::size_t>(1 - player())])] = 1;
  }
  void legal(std::span<float> out) const { std::ranges::fill(out, 1.0F); }
  bool act(std::int32_t action, std::span<float> rewards) {
    history[static_cast<std::size_t>(moves++)] = action;
    const float won = payoff();
    rewards[0] = won;
    rewards[1] = -won;
    return won != 0;
  }
  /// What the first player wins; 0 while the game runs.
  float payoff() const {
    if (moves < 2) return 0;
    const float showdown = cards[0] > cards[1] ? 1 : -1;
    if (history[moves - 2] == 0 && history[moves - 1] == 1) return 0;  // pass, bet: an answer is due
    if (history[moves - 1] == 1) return 2 * showdown;                  // bet, call
    if (history[moves - 2] == 1) return moves % 2 == 0 ? 1 : -1;       // bet, fold
    return showdown;                                                   // pass, pass
  }
};

/// Probability of betting at [card][place].
using KuhnPolicy = std::array<std::array<double, 4>, 3>;

/// What `player` wins on average against `policy` when it plays as well as can be, or, with `own`, by that
/// policy. Its choice at [card][place] is tried out: there are 2 places for each card.
inline double kuhn_value(const KuhnPolicy& first, const KuhnPolicy& second) {
  double total = 0;
  const std::function<double(KuhnPoker)> value = [&](const KuhnPoker& game) -> double {
    if (const float won = game.payoff(); won != 0) return static_cast<double>(won);
    const int player = game.player();
    const double bet = (player == 0 ? first : second)[game.cards[player]][game.place()];
    double sum = 0;
    for (int action = 0; action < 2; ++action) {
      KuhnPoker next = game;
      next.history[next.moves++] = action;
      const double share = action == 1 ? bet : 1 - bet;
      if (share > 0) sum += share * value(next);
    }
    return sum;
  };
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b)
      if (a != b) total += value({.cards = {a, b}, .history = {}, .moves = 0}) / 6;
  return total;
}

/// The best that one player can do, over all of its 2^6 pure strategies.
inline double kuhn_best_response(const KuhnPolicy& opponent, int player) {
  const std::array<int, 2> places = player == 0 ? std::array{0, 3} : std::array{1, 2};
  double best = -10;
  for (unsigned bits = 0; bits < 64; ++bits) {
    KuhnPolicy pure{};
    for (unsigned card = 0; card < 3; ++card)
      for (unsigned i = 0; i < 2; ++i) pure[card][places[i]] = bits >> (card * 2 + i) & 1;
    best = std::max(best, player == 0 ? kuhn_value(pure, opponent) : -kuhn_value(opponent, pure));
  }
  return best;
}

/// How much both lose against best responses, together: 0 for an equilibrium.
inline double kuhn_exploitability(const KuhnPolicy& policy) {
  return kuhn_best_response(policy, 0) + kuhn_best_response(policy, 1);
}

}  // namespace ingot::test
