#pragma once

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "ingot/mahjong/table.h"
#include "ingot/mahjong/wall_builder.h"

namespace ingot::mahjong {

/// A round dealt by hand. Hands are 13 tiles; one left empty is filled with tiles that have little to do with
/// each other. After the draws that are named, low tiles follow.
struct Deal {
  std::array<const char*, 4> hands = {"", "", "", ""};
  const char* draws = "";    ///< from the live wall, in order
  const char* rinshan = "";  ///< replacement tiles of kans
  const char* dora = "3z";   ///< indicators, the first is open
  const char* ura = "";
  int round = 0, honba = 0, sticks = 0;
  std::array<std::int32_t, 4> scores = {25000, 25000, 25000, 25000};
};

inline Tile tile(const char* text) { return parse_tiles(text).at(0); }
inline Action ron() { return Action::of(ActionType::Ron); }
inline Action tsumo() { return Action::of(ActionType::Tsumo); }
inline Action pon(const char* text) {
  const Tile called = tile(text);
  return Action::pon(called, kind_of(called), kind_of(called));
}
inline Action chi(const char* called, const char* two) {
  const auto tiles = parse_tiles(two);
  return Action::chi(tile(called), tiles.at(0), tiles.at(1));
}
inline Action daiminkan(const char* text) { return Action::daiminkan(tile(text)); }

/// Plays a round from a Deal.
class Scene {
 public:
  explicit Scene(const Deal& deal, const Rules& rules = Rules::tenhou())
      : table(start_round(rules, start_of(deal), wall_of(deal, rules), &events)) {}

  using Answers = std::map<int, Action>;
  /// The player whose turn it is does this; of the others asked, who is not in `answers` passes.
  void act(const Action& action, const Answers& answers = {}) {
    apply(table, table.pub.actor, action, &events);
    Answers left = answers;
    while (table.pub.phase == Phase::Reaction && table.to_act() != 0) {
      const int player = __builtin_ctz(table.to_act());
      const auto found = left.find(player);
      apply(table, player, found == left.end() ? Action::pass() : found->second, &events);
      if (found != left.end()) left.erase(found);
    }
    EXPECT_TRUE(left.empty()) << "player " << (left.empty() ? -1 : left.begin()->first) << " was not asked";
  }
  void discard(const char* text, const Answers& answers = {}) {
    const Tile which = tile(text);
    act(Action::discard(which, own(table.pub.actor).drawn == which), answers);
  }
  void riichi(const char* text, const Answers& answers = {}) {
    apply(table, table.pub.actor, Action::of(ActionType::Riichi), &events);
    discard(text, answers);
  }
  void ankan(const char* text, const Answers& answers = {}) {
    act(Action::ankan(kind_of(tile(text))), answers);
  }
  void kakan(const char* text, const Answers& answers = {}) { act(Action::kakan(tile(text)), answers); }
  /// Everybody discards what they draw and claims nothing, until `turns` discards or the end of the round.
  void pass_turns(int turns = 200) {
    for (; turns > 0 && table.pub.phase == Phase::Turn; --turns)
      act(Action::discard(own(table.pub.actor).drawn, true));
  }

  const PrivateState& own(int player) const { return table.own[static_cast<std::size_t>(player)]; }
  const Seat& seat(int player) const { return table.pub.seats[static_cast<std::size_t>(player)]; }
  std::array<std::int32_t, 4> scores() const {
    return {seat(0).score, seat(1).score, seat(2).score, seat(3).score};
  }
  bool may(int player, const Action& action) const { return is_legal(table, player, action); }
  bool may(int player, ActionType type) const { return legal_actions(table, player).find(type) != nullptr; }
  bool over() const { return table.pub.phase == Phase::RoundOver || table.over(); }
  int count(EventType type) const {
    int n = 0;
    for (const Event& event : events) n += event.type == type;
    return n;
  }
  /// The latest event of a type.
  const Event& last(EventType type) const {
    for (std::size_t i = events.size(); i-- > 0;)
      if (events[i].type == type) return events[i];
    static const Event none;
    ADD_FAILURE() << "no such event";
    return none;
  }
  DrawReason drawn_for() const { return last(EventType::Ryukyoku).reason; }

  Events events;
  Table table;

 private:
  static RoundStart start_of(const Deal& s) {
    RoundStart start;
    start.round = static_cast<std::uint8_t>(s.round);
    start.honba = static_cast<std::uint16_t>(s.honba);
    start.sticks = static_cast<std::uint16_t>(s.sticks);
    start.scores = s.scores;
    return start;
  }

  static Wall wall_of(const Deal& s, const Rules& rules) {
    std::array<int, kKinds> used{};
    const auto use = [&](const char* text) {
      const auto tiles = parse_tiles(text);
      for (const Tile one : tiles) ++used[kind_of(one)];
      return tiles;
    };
    Event start;
    start.type = EventType::StartKyoku;
    start.round = static_cast<std::uint8_t>(s.round);
    start.dealer = static_cast<std::uint8_t>(s.round % 4);
    std::array<std::vector<Tile>, 4> hands;
    for (std::size_t p = 0; p < 4; ++p) hands[p] = use(s.hands[p]);
    const auto draws = use(s.draws), rinshan = use(s.rinshan), dora = use(s.dora), ura = use(s.ura);
    for (std::size_t p = 0; p < 4; ++p) {
      // Every third kind of a suit, and honours; a red five is the lowest copy, so fives are left out.
      for (int i = 0; hands[p].size() < 13 && i < 4 * kKinds; ++i) {
        const auto kind = static_cast<Kind>((3 * i + i / 34 + static_cast<int>(p)) % kKinds);
        if (is_five(kind) || used[kind] > 2) continue;
        ++used[kind];
        hands[p].push_back(kind);
      }
      EXPECT_EQ(hands[p].size(), 13U) << "hand of player " << p;
      std::copy_n(hands[p].begin(), 13, start.hands[p].begin());
    }
    start.tile = dora.at(0);
    Events script{start};
    const auto add = [&](EventType type, Tile which) {
      Event event;
      event.type = type;
      event.tile = which;
      script.push_back(event);
    };
    for (const Tile one : draws) add(EventType::Tsumo, one);
    for (const Tile one : rinshan) {
      add(EventType::Ankan, kNoTile);
      add(EventType::Tsumo, one);
    }
    for (std::size_t i = 1; i < dora.size(); ++i) add(EventType::Dora, dora[i]);
    add(EventType::Hora, kNoTile);
    script.back().ura_count = static_cast<std::uint8_t>(ura.size());
    std::copy(ura.begin(), ura.end(), script.back().ura.begin());
    return build_wall(rules, script);
  }
};

}  // namespace ingot::mahjong
