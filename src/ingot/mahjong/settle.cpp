#include <algorithm>
#include <cmath>

#include "ingot/mahjong/flow.h"
#include "ingot/mahjong/legal.h"

namespace ingot::mahjong {
namespace {

using Deltas = std::array<std::int32_t, 4>;

void close_round(Table& t, bool dealer_stays, bool counters_stay, bool abortive, bool won, Events* events);

struct Win {
  int player;
  WinScore score;
  std::array<Tile, 5> ura{};
  std::uint8_t ura_count = 0;
};

Win score_winner(const Table& t, int player, bool tsumo) {
  const PublicState& pub = t.pub;
  Win win;
  win.player = player;
  Hand hand = t.own[at(player)].hand;
  const Tile tile = tsumo ? t.own[at(player)].drawn : pub.claimed;
  if (!tsumo) hand.add(tile);
  WinQuery q = win_query(pub, hand, player, tile, tsumo);
  if (q.riichi && pub.rules.ura_dora) {
    win.ura_count = pub.rules.kan_ura_dora ? pub.indicator_count : std::uint8_t{1};
    for (std::size_t i = 0; i < win.ura_count; ++i) win.ura[i] = tile_of(pub.rules, t.wall[4 + 2 * i]);
    q.ura_indicators = {win.ura.data(), win.ura_count};
  }
  win.score = score_win(q, pub.rules);
  INGOT_ASSERT(win.score.is_win());
  return win;
}

// Who answers for this win, and for how many of its yakuman.
struct Liability {
  int player = -1;
  std::int32_t base = 0;
};
Liability liability(const PublicState& pub, const Win& win) {
  const Seat& seat = pub.seats[at(win.player)];
  Liability who;
  if (pub.rules.pao == Pao::None) return who;
  if (win.score.has(Yaku::Daisangen) && seat.pao_dragons != kNobody) {
    who.player = seat.pao_dragons;
    who.base += 8000;
  }
  if (win.score.has(Yaku::Daisuushii) && seat.pao_winds != kNobody) {
    who.player = seat.pao_winds;
    who.base += pub.rules.double_daisuushii ? 16000 : 8000;
  }
  if (pub.rules.pao == Pao::WholeHand) who.base = win.score.base;
  who.base = std::min(who.base, win.score.base);
  return who;
}

std::int32_t tsumo_total(std::int32_t base, bool dealer) {
  const Payment pay = payment_for(base, dealer);
  return dealer ? 3 * pay.from_non_dealer : 2 * pay.from_non_dealer + pay.from_dealer;
}

void pay_tsumo(const PublicState& pub, int winner, std::int32_t base, Deltas& deltas) {
  const bool dealer = winner == pub.dealer;
  const Payment pay = payment_for(base, dealer);
  for (int player = 0; player < 4; ++player) {
    if (player == winner) continue;
    const std::int32_t points = player == pub.dealer ? pay.from_dealer : pay.from_non_dealer;
    deltas[at(player)] -= points;
    deltas[at(winner)] += points;
  }
}

void transfer(Deltas& deltas, int from, int to, std::int32_t points) {
  deltas[at(from)] -= points;
  deltas[at(to)] += points;
}

Deltas tsumo_deltas(const PublicState& pub, const Win& win) {
  Deltas deltas{};
  const Liability pao = liability(pub, win);
  const bool dealer = win.player == pub.dealer;
  if (pao.player >= 0) {
    transfer(deltas, pao.player, win.player, tsumo_total(pao.base, dealer) + 300 * pub.honba);
    if (win.score.base > pao.base) pay_tsumo(pub, win.player, win.score.base - pao.base, deltas);
    return deltas;
  }
  pay_tsumo(pub, win.player, win.score.base, deltas);
  for (int player = 0; player < 4; ++player)
    if (player != win.player) transfer(deltas, player, win.player, 100 * pub.honba);
  return deltas;
}

Deltas ron_deltas(const PublicState& pub, const Win& win, bool with_honba) {
  Deltas deltas{};
  const Liability pao = liability(pub, win);
  const bool dealer = win.player == pub.dealer;
  const std::int32_t honba = with_honba ? 300 * pub.honba : 0;
  const int from = pub.actor;
  if (pao.player >= 0 && pao.player != from) {
    const std::int32_t shared = payment_for(pao.base, dealer).ron;
    transfer(deltas, pao.player, win.player, shared / 2);
    transfer(deltas, from, win.player, shared / 2);
    transfer(deltas, pub.rules.pao_pays_honba ? pao.player : from, win.player, honba);
    if (win.score.base > pao.base)
      transfer(deltas, from, win.player, payment_for(win.score.base - pao.base, dealer).ron);
  } else {
    transfer(deltas, from, win.player, payment_for(win.score.base, dealer).ron + honba);
  }
  return deltas;
}

void add_scores(PublicState& pub, const Deltas& deltas) {
  for (std::size_t p = 0; p < 4; ++p) pub.seats[p].score += deltas[p];
}

Event& emit_end(Events& events, EventType type, const PublicState& pub, const Deltas& deltas) {
  Event& event = events.emplace_back();
  event.type = type;
  event.has_deltas = true;
  event.deltas = deltas;
  for (std::size_t p = 0; p < 4; ++p) event.scores[p] = pub.seats[p].score;
  return event;
}

void settle_win(Table& t, const Win& win, const Deltas& deltas, bool tsumo, Events* events) {
  add_scores(t.pub, deltas);
  if (events == nullptr) return;
  Event& event = emit_end(*events, EventType::Hora, t.pub, deltas);
  event.actor = static_cast<std::uint8_t>(win.player);
  event.target = tsumo ? event.actor : t.pub.actor;
  event.tile = tsumo ? t.own[at(win.player)].drawn : t.pub.claimed;
  event.win = win.score;
  const bool dealer = win.player == t.pub.dealer;
  event.points = tsumo ? tsumo_total(win.score.base, dealer) : payment_for(win.score.base, dealer).ron;
  event.ura = win.ura;
  event.ura_count = win.ura_count;
}

std::array<int, 4> places(const std::array<std::int32_t, 4>& scores) {
  std::array<int, 4> place{};
  for (std::size_t p = 0; p < 4; ++p)
    for (std::size_t q = 0; q < 4; ++q)
      place[p] += scores[q] > scores[p] || (scores[q] == scores[p] && q < p);
  return place;
}

std::array<std::int32_t, 4> scores_of(const PublicState& pub) {
  return {pub.seats[0].score, pub.seats[1].score, pub.seats[2].score, pub.seats[3].score};
}

bool game_ends(const Table& t, bool dealer_stays, bool abortive, bool won) {
  const PublicState& pub = t.pub;
  const Rules& rules = pub.rules;
  const auto scores = scores_of(pub);
  if (rules.bust && *std::min_element(scores.begin(), scores.end()) < 0) return true;
  if (rules.length == GameLength::SingleRound) return true;
  const int last = rules.length == GameLength::East ? 3 : 7;
  if (pub.round < last) return false;
  const bool reached = *std::max_element(scores.begin(), scores.end()) >= rules.target_points;
  if (dealer_stays) {
    const bool may_stop = !abortive && (won ? rules.agari_yame : rules.tenpai_yame);
    return may_stop && scores[pub.dealer] >= rules.target_points && places(scores)[pub.dealer] == 0;
  }
  return reached || !rules.extension || pub.round >= last + 4;
}

void close_round(Table& t, bool dealer_stays, bool counters_stay, bool abortive, bool won, Events* events) {
  PublicState& pub = t.pub;
  t.dealer_stays = dealer_stays;
  t.counters_stay = counters_stay;
  t.waiting = 0;
  pub.declaring = pub.after_call = false;
  if (events != nullptr) events->emplace_back().type = EventType::EndKyoku;
  if (!game_ends(t, dealer_stays, abortive, won)) {
    pub.phase = Phase::RoundOver;
    return;
  }
  pub.phase = Phase::GameOver;
  const auto place = places(scores_of(pub));
  for (std::size_t p = 0; p < 4; ++p)
    if (place[p] == 0) pub.seats[p].score += 1000 * pub.sticks;
  pub.sticks = 0;
  if (events != nullptr) {
    Event& event = events->emplace_back();
    event.type = EventType::EndGame;
    event.scores = scores_of(pub);
  }
}

// What each winner takes of the riichi sticks. `winners` are in turn order after the discarder.
std::array<std::int32_t, 3> share_sticks(const PublicState& pub, std::span<const int> winners) {
  std::array<std::int32_t, 3> points{};
  points[0] = 1000 * pub.sticks;
  for (std::size_t i = 1; i < winners.size() && pub.rules.winners_keep_own_stick; ++i) {
    if (pub.seats[at(winners[i])].riichi != RiichiState::Accepted) continue;
    points[i] = 1000;
    points[0] -= 1000;
  }
  return points;
}

}  // namespace

void end_by_tsumo(Table& t, Events* events) {
  PublicState& pub = t.pub;
  const Win win = score_winner(t, pub.actor, true);
  Deltas deltas = tsumo_deltas(pub, win);
  deltas[at(win.player)] += 1000 * pub.sticks;
  pub.sticks = 0;
  settle_win(t, win, deltas, true, events);
  const bool dealer = win.player == pub.dealer;
  close_round(t, dealer, dealer, false, true, events);
}

void end_by_ron(Table& t, unsigned rons, Events* events) {
  PublicState& pub = t.pub;
  const int claimants = __builtin_popcount(rons);
  if (claimants == 3 && pub.rules.multiple_ron == MultipleRon::TripleAborts)
    return end_by_abort(t, DrawReason::TripleRon, events);
  std::array<int, 3> winners;
  std::size_t count = 0;
  for (int i = 1; i < 4; ++i)
    if ((rons >> ((pub.actor + i) % 4) & 1) != 0) winners[count++] = (pub.actor + i) % 4;
  if (pub.rules.multiple_ron == MultipleRon::HeadBump) count = 1;
  const std::array<std::int32_t, 3> sticks = share_sticks(pub, {winners.data(), count});
  pub.sticks = 0;
  bool dealer_won = false;
  for (std::size_t i = 0; i < count; ++i) {
    const Win win = score_winner(t, winners[i], false);
    Deltas deltas = ron_deltas(pub, win, i == 0 || pub.rules.every_ron_takes_honba);
    deltas[at(win.player)] += sticks[i];
    settle_win(t, win, deltas, false, events);
    dealer_won |= win.player == pub.dealer;
  }
  close_round(t, dealer_won, dealer_won, false, true, events);
}

void end_by_exhaustion(Table& t, Events* events) {
  PublicState& pub = t.pub;
  unsigned tenpai = 0;
  bool nagashi = false;
  Deltas deltas{};
  for (int player = 0; player < 4; ++player) {
    if (t.own[at(player)].waits != 0) tenpai |= 1U << player;
    const Seat& seat = pub.seats[at(player)];
    if (pub.rules.nagashi_mangan && !seat.river_called && seat.discards > 0 &&
        (seat.river_kinds & ~kYaochuu) == 0) {
      nagashi = true;
      pay_tsumo(pub, player, 2000, deltas);
    }
  }
  const int ready = __builtin_popcount(tenpai);
  if (!nagashi && ready > 0 && ready < 4)
    for (std::size_t p = 0; p < 4; ++p)
      deltas[p] = (tenpai >> p & 1) != 0 ? 3000 / ready : -3000 / (4 - ready);
  add_scores(pub, deltas);
  if (events != nullptr) {
    Event& event = emit_end(*events, EventType::Ryukyoku, pub, deltas);
    event.reason = nagashi ? DrawReason::NagashiMangan : DrawReason::Exhausted;
    event.tenpai = static_cast<std::uint8_t>(tenpai);
  }
  close_round(t, (tenpai >> pub.dealer & 1) != 0, true, false, false, events);
}

void end_by_abort(Table& t, DrawReason reason, Events* events) {
  if (events != nullptr) {
    Event& event = emit_end(*events, EventType::Ryukyoku, t.pub, {});
    event.actor = t.pub.actor;
    event.reason = reason;
  }
  close_round(t, true, true, true, false, events);
}

GameResult game_result(const Table& table) { return game_result(scores_of(table.pub), table.pub.rules); }

GameResult game_result(const std::array<std::int32_t, 4>& scores, const Rules& rules) {
  GameResult result;
  result.place = places(scores);
  const double oka = 4.0 * (rules.return_points - rules.starting_points) / 1000.0;
  double others = 0;
  std::array<double, 4> bonus;  // by place
  for (std::size_t i = 0; i < 4; ++i) bonus[i] = rules.uma[i] + (i == 0 ? oka : 0.0);
  for (std::size_t p = 0; p < 4; ++p) {
    double shared = 0;
    int same = 0;
    for (std::size_t q = 0; q < 4; ++q) {
      if (scores[q] != scores[p]) continue;
      shared += bonus[at(result.place[q])];
      ++same;
    }
    const double above = (scores[p] - rules.return_points) / 1000.0;
    if (rules.rounding == ResultRounding::Thousands) {
      result.points[p] =
          std::round(scores[p] / 1000.0) - rules.return_points / 1000.0 + bonus[at(result.place[p])];
      if (result.place[p] != 0) others += result.points[p];
    } else {
      result.points[p] = above + (rules.ties_share ? shared / same : bonus[at(result.place[p])]);
    }
  }
  if (rules.rounding == ResultRounding::Thousands)
    for (std::size_t p = 0; p < 4; ++p)
      if (result.place[p] == 0) result.points[p] = -others;
  return result;
}

}  // namespace ingot::mahjong
