#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "ingot/mahjong/log.h"
#include "ingot/mahjong/wall_builder.h"

namespace ingot::mahjong {
namespace {

// Logs differ in two matters of order that mean nothing: winners of one discard are put in turn order from
// the discarder, and a dora of an open kan that is announced after the next discard is put before it.
Events in_common_order(Events events) {
  const auto turn = [](const Event& event) { return (event.actor - event.target + 4) % 4; };
  int open_kans = 0;
  for (std::size_t i = 1; i < events.size(); ++i) {
    Event& before = events[i - 1];
    Event& event = events[i];
    open_kans += event.type == EventType::Daiminkan || event.type == EventType::Kakan;
    if (event.type == EventType::Hora && before.type == EventType::Hora)
      for (std::size_t k = i; events[k - 1].type == EventType::Hora && turn(events[k]) < turn(events[k - 1]);
           --k)
        std::swap(events[k], events[k - 1]);
    if (event.type != EventType::Dora || open_kans == 0) continue;
    --open_kans;
    if (before.type == EventType::Dahai) std::swap(before, event);
  }
  return events;
}

constexpr const char* kUnfinished = "the log breaks off in the middle of the round";

class Replayer {
 public:
  Replayer(const GameLog& log, const DecisionVisitor& visit) : log_(log), visit_(visit) {}

  ReplayCounts run() {
    std::optional<RoundStart> expected;
    for (round_ = 0; round_ < log_.rounds.size(); ++round_) {
      const Events& events = log_.rounds[round_].events;
      next_ = 0;
      if (events.empty() || events[0].type != EventType::StartKyoku)
        fail("the round does not start with start_kyoku");
      if (round_ > 0 && !expected) fail("the game was over after the round before");
      if (expected) check_start(*expected, events[0]);
      const Table end = play_round(log_.rounds[round_], expected ? expected->scores : first_scores());
      expected.reset();
      if (!end.over()) expected = next_start(end);
      if (round_ + 1 == log_.rounds.size()) check_end(end);
      for (std::size_t p = 0; p < 4; ++p) counts_.scores[p] = end.pub.seats[p].score;
      counts_.over = end.over();
      ++counts_.rounds;
    }
    return counts_;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    const Events& events = log_.rounds[round_].events;
    const std::string name{next_ < events.size() ? event_name(events[next_].type) : "end of the log"};
    throw FormatError(log_.source, -1, fmt::format("round {}, event {} ({})", round_ + 1, next_ + 1, name),
                      problem);
  }

  void check_start(const RoundStart& expected, const Event& start) {
    if (start.round != expected.round || start.honba != expected.honba || start.sticks != expected.sticks)
      fail(fmt::format("round {} honba {} sticks {}, expected {} {} {} from the round before", start.round,
                       start.honba, start.sticks, expected.round, expected.honba, expected.sticks));
    if (start.has_scores && start.scores != expected.scores)
      fail(scores_problem("scores", start.scores, expected.scores));
  }

  static std::string scores_problem(const char* what, const std::array<std::int32_t, 4>& found,
                                    const std::array<std::int32_t, 4>& expected) {
    return fmt::format("{} {} {} {} {}, expected {} {} {} {}", what, found[0], found[1], found[2], found[3],
                       expected[0], expected[1], expected[2], expected[3]);
  }

  void check_end(const Table& end) {
    if (log_.complete && *log_.complete != end.over())
      fail(end.over() ? "the game is over here, but the log does not say so"
                      : "the log ends, but the game is not over");
    if (!log_.complete.value_or(false)) return;
    std::array<std::int32_t, 4> scores;
    for (std::size_t p = 0; p < 4; ++p) scores[p] = end.pub.seats[p].score;
    if (log_.final_scores && *log_.final_scores != scores)
      fail(scores_problem("final scores", *log_.final_scores, scores));
    if (!log_.final_points) return;
    const GameResult result = game_result(end);
    for (std::size_t p = 0; p < 4; ++p)
      if (std::abs(result.points[p] - (*log_.final_points)[p]) > 1e-9)
        fail(fmt::format("player {} ends with {} points, expected {}", p, (*log_.final_points)[p],
                         result.points[p]));
  }

  std::array<std::int32_t, 4> first_scores() const {
    std::array<std::int32_t, 4> scores;
    scores.fill(log_.rules.starting_points);
    return scores;
  }

  // With the scores that it has if the log does not say.
  Table play_round(const LogRound& round, const std::array<std::int32_t, 4>& scores) {
    const Event& start = round.events[0];
    const RoundStart where{start.round, start.honba, start.sticks, start.has_scores ? start.scores : scores};
    seeded_ = round.wall.has_value();
    counts_.seeded += seeded_;
    if (start.dealer != start.round % 4) fail("the dealer does not fit the round");
    sorted_ = in_common_order(round.events);
    events_ = &sorted_;
    produced_.clear();
    Table table{};
    try {
      table = start_round(log_.rules, where, round.wall ? *round.wall : build_wall(log_.rules, round.events),
                          &produced_);
    } catch (const InvalidHand& error) {
      fail(error.what());
    }
    compare_new();
    while (table.to_act() != 0) {
      if (table.pub.phase == Phase::Turn)
        take_turn(table);
      else
        take_reactions(table);
      compare_new();
    }
    if (next_ < round.events.size()) fail("comes after the end of the round");
    return table;
  }

  // The decisive event at or after the next one: what follows a claim is announced in between.
  const Event& decisive(bool skip_riichi) const {
    for (std::size_t i = next_; i < events_->size(); ++i) {
      const EventType type = (*events_)[i].type;
      if (type == EventType::EndKyoku) break;
      if (type != EventType::Dora && !(skip_riichi && type == EventType::ReachAccepted)) return (*events_)[i];
    }
    fail(kUnfinished);
  }

  void act(Table& table, int player, const Action& action) {
    ++counts_.actions;
    if (!is_legal(table, player, action)) {
      try {
        apply(table, player, action);
      } catch (const IllegalAction& error) {
        fail(error.what());
      }
    }
    if (visit_) visit_(table, player, action);
    apply_trusted(table, player, action, &produced_);
  }

  void take_turn(Table& table) {
    const Event& event = decisive(false);
    const int player = table.pub.actor;
    if (event.type != EventType::Ryukyoku && event.actor != player)
      fail(fmt::format("player {} acts on the turn of player {}", event.actor, player));
    switch (event.type) {
      case EventType::Dahai:
        return act(table, player, Action::discard(event.tile, event.tsumogiri));
      case EventType::Reach:
        return act(table, player, Action::of(ActionType::Riichi));
      case EventType::Ankan:
        if (event.consumed[0] >= kTiles) fail("an ankan without its tiles");
        return act(table, player, Action::ankan(kind_of(event.consumed[0])));
      case EventType::Kakan:
        return act(table, player, Action::kakan(event.tile));
      case EventType::Hora:
        return act(table, player, Action::of(ActionType::Tsumo));
      case EventType::Ryukyoku:
        return act(table, player, Action::of(ActionType::NineOrphans));
      default:
        fail("cannot happen on a player's turn");
    }
  }

  Action claim_of(const Event& event) const {
    switch (event.type) {
      case EventType::Chi:
        if (event.consumed[0] >= kTiles || event.consumed[1] >= kTiles) fail("a chi without its tiles");
        return Action::chi(event.tile, event.consumed[0], event.consumed[1]);
      case EventType::Pon:
        return Action::pon(event.tile, event.consumed[0], event.consumed[1]);
      case EventType::Daiminkan:
        return Action::daiminkan(event.tile);
      default:
        return Action::pass();
    }
  }

  void take_reactions(Table& table) {
    const Event& event = decisive(true);
    std::array<Action, 4> chosen;
    chosen.fill(Action::pass());
    const bool calls =
        event.type == EventType::Chi || event.type == EventType::Pon || event.type == EventType::Daiminkan;
    if (calls) chosen[event.actor] = claim_of(event);
    unsigned named = calls ? 1U << event.actor : 0U;
    for (std::size_t i = next_; i < events_->size() && (*events_)[i].type == EventType::Hora; ++i) {
      chosen[(*events_)[i].actor] = Action::of(ActionType::Ron);
      named |= 1U << (*events_)[i].actor;
    }
    const bool triple = event.type == EventType::Ryukyoku && event.reason == DrawReason::TripleRon;
    for (int player = 0; player < 4 && triple; ++player)
      if (player != table.pub.actor) chosen[static_cast<std::size_t>(player)] = Action::of(ActionType::Ron);
    const unsigned asked = table.to_act();
    for (int player = 0; player < 4; ++player) {
      if ((asked >> player & 1) != 0)
        act(table, player, chosen[static_cast<std::size_t>(player)]);
      else if ((named >> player & 1) != 0)
        fail(fmt::format("player {} may not {} here", player,
                         to_string(chosen[static_cast<std::size_t>(player)])));
    }
  }

  // What the table announced must be what the log says next.
  void compare_new() {
    for (; next_ < produced_.size(); ++next_) {
      if (next_ >= events_->size()) {
        if (produced_[next_].type == EventType::EndGame) continue;
        fail(fmt::format("the log ends where {} follows", event_name(produced_[next_].type)));
      }
      const std::string problem = difference((*events_)[next_], produced_[next_]);
      if (!problem.empty()) fail(problem);
      counts_.wins += produced_[next_].type == EventType::Hora;
      counts_.draws += produced_[next_].type == EventType::Ryukyoku;
    }
  }

  std::string difference(const Event& log, const Event& own) const;
  static std::string win_difference(const Event& log, const Event& own);

  bool seeded_ = false;
  const GameLog& log_;
  const DecisionVisitor& visit_;
  Events sorted_;
  const Events* events_ = nullptr;
  Events produced_;
  std::size_t round_ = 0, next_ = 0;
  ReplayCounts counts_;
};

std::string yaku_list(std::uint64_t yaku) {
  std::string text;
  for (; yaku != 0; yaku &= yaku - 1) {
    const auto one = static_cast<Yaku>(__builtin_ctzll(yaku));
    text += (text.empty() ? "" : ", ") + std::string(one < Yaku::kCount ? yaku_name(one) : "an unknown one");
  }
  return text;
}

std::string Replayer::win_difference(const Event& log, const Event& own) {
  if (log.target != own.target) return fmt::format("won from player {}, expected {}", log.target, own.target);
  if (log.tile != kNoTile && log.tile != own.tile)
    return fmt::format("won on {}, expected {}", tile_name(log.tile), tile_name(own.tile));
  if (log.win.yaku != 0) {
    if (log.win.yaku != own.win.yaku)
      return fmt::format("yaku {}; expected {}", yaku_list(log.win.yaku), yaku_list(own.win.yaku));
    // A log names a yakuman once, whatever the rules count it for: its points tell.
    const bool counted = log.win.yakuman == 0;
    if (counted && log.win.han != own.win.han)
      return fmt::format("{} han, expected {}", log.win.han, own.win.han);
    if (counted && log.win.fu != kUnknownFu && log.win.fu != own.win.fu)
      return fmt::format("{} fu, expected {}", log.win.fu, own.win.fu);
  }
  if (log.points != 0 && log.points != own.points)
    return fmt::format("{} points, expected {}", log.points, own.points);
  if (log.ura_count != 0 && !std::equal(log.ura.begin(), log.ura.begin() + log.ura_count, own.ura.begin(),
                                        own.ura.begin() + own.ura_count))
    return "other ura dora indicators than the wall has";
  return {};
}

std::string Replayer::difference(const Event& log, const Event& own) const {
  if (log.type == EventType::EndKyoku && own.type != log.type) return kUnfinished;
  if (log.type != own.type) return fmt::format("expected {}", event_name(own.type));
  switch (own.type) {
    case EventType::StartKyoku:
      return log.tile == own.tile ? "" : "the dora indicator is not the wall's";
    case EventType::Ryukyoku:
      if (log.reason != DrawReason::Unknown && log.reason != own.reason) return "drawn for another reason";
      break;
    case EventType::Dora:
      if (log.tile != own.tile)
        return fmt::format("dora indicator {}, expected {}", tile_name(log.tile), tile_name(own.tile));
      return {};
    case EventType::EndKyoku:
    case EventType::EndGame:
      return {};
    default:
      if (log.actor != own.actor) return fmt::format("player {}, expected {}", log.actor, own.actor);
  }
  if (own.type == EventType::Tsumo) {
    if (log.tile != own.tile)
      return fmt::format("draws {}, expected {}", tile_name(log.tile), tile_name(own.tile));
    // Which of four alike tiles it is, a wall rebuilt from the events does not know.
    if (seeded_ && log.id != 255 && log.id != own.id)
      return fmt::format("draws tile {}, expected {}", log.id, own.id);
  }
  if (own.type == EventType::Hora) {
    const std::string problem = win_difference(log, own);
    if (!problem.empty()) return problem;
  }
  if (own.has_deltas && log.has_deltas && log.deltas != own.deltas)
    return scores_problem("payments", log.deltas, own.deltas);
  return {};
}

}  // namespace

void GameLog::end_with(const std::array<std::int32_t, 4>& scores, const std::array<double, 4>& points) {
  final_scores = scores;
  final_points = points;
  const auto whole = [](double value) { return value == std::floor(value); };
  rules.rounding =
      std::all_of(points.begin(), points.end(), whole) ? ResultRounding::Thousands : ResultRounding::None;
  if (rules.length != GameLength::East) return;
  Rules first_years = rules;
  first_years.uma = {10, 5, -5, -10};
  if (game_result(scores, first_years).points == points) rules = first_years;
}

ReplayCounts replay(const GameLog& log, const DecisionVisitor& visit) { return Replayer(log, visit).run(); }

std::string_view event_name(EventType type) {
  constexpr std::string_view names[] = {
      "start_game", "start_kyoku", "tsumo", "dahai",          "chi",  "pon",      "daiminkan", "kakan",
      "ankan",      "dora",        "reach", "reach_accepted", "hora", "ryukyoku", "end_kyoku", "end_game"};
  return names[static_cast<std::size_t>(type)];
}

}  // namespace ingot::mahjong
