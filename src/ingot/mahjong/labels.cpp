#include "ingot/mahjong/labels.h"

#include <algorithm>
#include <numeric>

#include "ingot/base/scope.h"
#include "ingot/mahjong/legal.h"
#include "ingot/mahjong/policy.h"

namespace ingot::mahjong {
namespace {

constexpr float kPointsOfReturn = 10'000;

std::array<std::int32_t, 4> scores_at(const Table& table) {
  std::array<std::int32_t, 4> scores{};
  for (std::size_t p = 0; p < 4; ++p) scores[p] = table.pub.seats[p].score;
  return scores;
}

void label_opponents(const Table& table, int player, LabelledDecision& decision) {
  for (int i = 0; i < 3; ++i) {
    const int opponent = (player + 1 + i) % 4;
    const PrivateState& own = table.own[static_cast<std::size_t>(opponent)];
    if (own.waits == 0) continue;
    decision.tenpai |= static_cast<std::uint8_t>(1U << i);
    decision.danger[static_cast<std::size_t>(i)] = ron_kinds(table.pub, own, opponent);
  }
}

float difference(std::int32_t later, std::int32_t now) {
  return static_cast<float>(later - now) / kPointsOfReturn;
}

}  // namespace

int order_index(const std::array<int, 4>& order) {
  int index = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto later = std::span(order).subspan(i + 1);
    const auto smaller = std::ranges::count_if(later, [&](int other) { return other < order[i]; });
    index = index * static_cast<int>(4 - i) + static_cast<int>(smaller);
  }
  return index;
}

std::array<int, 4> order_of(int index) {
  std::array<int, 4> digits{};
  for (int i = 3; i >= 0; --i) {
    digits[static_cast<std::size_t>(i)] = index % (4 - i);
    index /= 4 - i;
  }
  std::vector<int> left = {0, 1, 2, 3};
  std::array<int, 4> order{};
  for (std::size_t i = 0; i < 4; ++i) {
    order[i] = left[static_cast<std::size_t>(digits[i])];
    left.erase(left.begin() + digits[i]);
  }
  return order;
}

int order_seen_by(int seat, const std::array<std::int32_t, 4>& final_scores, const Rules& rules) {
  const GameResult result = game_result(final_scores, rules);
  std::array<int, 4> order{};
  for (int p = 0; p < 4; ++p)
    order[static_cast<std::size_t>(result.place[static_cast<std::size_t>(p)])] = (p - seat + 4) % 4;
  return order_index(order);
}

std::array<float, kRankContext> rank_context(int seat, const std::array<std::int32_t, 4>& by_seat, int round,
                                             int honba) {
  std::array<float, 4> scores{};
  for (std::size_t i = 0; i < 4; ++i)
    scores[i] = static_cast<float>(by_seat[(static_cast<std::size_t>(seat) + i) % 4]);
  std::array<float, kRankContext> out{};
  std::size_t next = 0;
  for (const float score : scores) out[next++] = score / 100'000;
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t k = i + 1; k < 4; ++k) out[next++] = (scores[i] - scores[k]) / 30'000;
  for (const float score : scores) {
    float above = score;
    for (const float other : scores)
      if (other > score && (above == score || other < above)) above = other;
    out[next++] = (above - score) / 10'000;
  }
  out[next++] = static_cast<float>(round) / 8;
  out[next] = static_cast<float>(honba) / 10;
  return out;
}

std::array<float, kRankContext> rank_context(const Observation& o) {
  std::array<std::int32_t, 4> scores{};
  for (std::size_t p = 0; p < 4; ++p) scores[p] = o.pub.seats[p].score;
  return rank_context(o.seat, scores, o.pub.round, o.pub.honba);
}

KindSet ron_kinds(const PublicState& pub, const PrivateState& own, int player) {
  if (own.waits == 0 || is_furiten(pub, own, player)) return 0;
  if (pub.seats[static_cast<std::size_t>(player)].riichi == RiichiState::Accepted) return own.waits;
  KindSet kinds = 0;
  for_each_kind(own.waits, [&](Kind kind) {
    Hand hand = own.hand;
    hand.add_kind(kind);
    WinQuery query = win_query(pub, hand, player, kind, false);
    query.chankan = false;  // a discard, whatever was claimed last
    if (score_win(query, pub.rules).is_win()) kinds |= bit(kind);
  });
  return kinds;
}

LabelledDecision LabelledDecision::permuted(const SuitPermutation& suits) const {
  LabelledDecision out = *this;
  out.observation = suits.observation(observation);
  out.action = static_cast<std::uint8_t>(suits.policy_index(action));
  out.mask = 0;
  for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1)
    out.mask |= std::uint64_t{1} << suits.policy_index(__builtin_ctzll(rest));
  for (KindSet& kinds : out.danger) kinds = suits.kinds(kinds);
  return out;
}

LabelledGame label_game(const GameLog& log) {
  const Scope scope(ScopeKind::data, "label game");
  LabelledGame game;
  std::vector<std::array<std::int32_t, 4>> after;  // each round
  int round = -1;
  std::uint8_t number = 255;
  std::uint16_t honba = 0;
  const ReplayCounts counts = replay(log, [&](const Table& table, int player, const Action& action) {
    if (round < 0 || table.pub.round != number || table.pub.honba != honba) {
      if (round >= 0) after.push_back(scores_at(table));
      ++round;
      number = table.pub.round;
      honba = table.pub.honba;
      game.starts.push_back({number, honba, table.pub.sticks, scores_at(table)});
    }
    const std::uint64_t mask = policy_mask(legal_actions(table, player));
    if ((mask & (mask - 1)) == 0) return;
    LabelledDecision& decision = game.decisions.emplace_back();
    decision.observation = observe(table, player);
    decision.mask = mask;
    decision.action = static_cast<std::uint8_t>(policy_index(action));
    decision.round = static_cast<std::uint16_t>(round);
    label_opponents(table, player, decision);
  });
  game.scores = counts.scores;
  game.over = counts.over;
  game.rounds = counts.rounds;
  after.resize(static_cast<std::size_t>(counts.rounds), counts.scores);
  std::array<int, 4> orders{};
  for (int p = 0; p < 4; ++p)
    orders[static_cast<std::size_t>(p)] = order_seen_by(p, counts.scores, log.rules);
  for (LabelledDecision& decision : game.decisions) {
    const std::size_t seat = decision.observation.seat;
    const std::int32_t now = decision.observation.pub.seats[seat].score;
    decision.round_return = difference(after[decision.round][seat], now);
    decision.game_return = difference(counts.scores[seat], now);
    if (game.over) decision.order = static_cast<std::uint8_t>(orders[seat]);
  }
  return game;
}

}  // namespace ingot::mahjong
