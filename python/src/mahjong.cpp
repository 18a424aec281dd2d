// Riichi mahjong: tables, hands, contests, logs.
#include <atomic>
#include <bit>
#include <chrono>
#include <future>

#include "bindings.h"

#include "ingot/base/error.h"
#include "ingot/mahjong/arena.h"
#include "ingot/mahjong/encoder.h"
#include "ingot/mahjong/log.h"
#include "ingot/mahjong/meld_text.h"
#include "ingot/mahjong/policy.h"
#include "ingot/mahjong/shanten.h"
#include "ingot/rl/mahjong_player.h"
#include "ingot/rl/mahjong_review.h"

namespace ingot::python {
namespace {

using namespace ingot::mahjong;

Rules rules_of(const std::string& name, const std::string& length) {
  Rules rules = Rules::named(name);
  rules.length = game_length_named(length);
  return rules;
}

int seat_of(int player) {
  INGOT_CHECK(player >= 0 && player <= 3,
              InvalidConfig("player", "is " + std::to_string(player) + "; seats are 0 to 3"));
  return player;
}

// A game with what has happened in it.
struct MahjongTable {
  Table table;
  Events events;

  ActionList legal(int player) const { return legal_actions(table, seat_of(player)); }
  Action action(int player, int index, const std::optional<int>& kan) const {
    const ActionList choices = legal(player);
    INGOT_CHECK(index >= 0 && index < kPolicyActions && ((policy_mask(choices) >> index) & 1U) != 0,
                IllegalAction("action " + std::to_string(index) + " is not legal for player " +
                              std::to_string(player) + " now"));
    INGOT_CHECK(!kan || (*kan >= 0 && *kan < kKinds),
                InvalidConfig("kan", "is " + std::to_string(kan.value_or(0)) + "; kinds are 0 to 33"));
    return policy_action(choices, index, kan ? static_cast<Kind>(*kan) : kNoTile);
  }
};

MahjongTable open_table(const std::string& rules, const std::string& length, std::uint64_t seed) {
  MahjongTable result;
  result.table = start_game(rules_of(rules, length), seed_from_number(seed), 0, &result.events);
  return result;
}

nb::list indices(std::uint64_t mask) {
  nb::list list;
  for (; mask != 0; mask &= mask - 1) list.append(std::countr_zero(mask));
  return list;
}

nb::list tile_names(KindSet kinds) {
  nb::list names;
  for_each_kind(kinds, [&](Kind kind) { names.append(std::string(tile_name(kind))); });
  return names;
}

void bind_table(nb::module_& module) {
  nb::class_<MahjongTable>(module, "_MahjongTable")
      .def_static("open", open_table, "rules"_a, "length"_a, "seed"_a)
      .def("clone", [](const MahjongTable& self) { return self; })
      .def_prop_ro("to_act", [](const MahjongTable& self) { return indices(self.table.to_act()); })
      .def_prop_ro("round_over",
                   [](const MahjongTable& self) { return self.table.pub.phase == Phase::RoundOver; })
      .def_prop_ro("over", [](const MahjongTable& self) { return self.table.over(); })
      .def_prop_ro("round", [](const MahjongTable& self) { return int{self.table.pub.round}; })
      .def_prop_ro("dealer", [](const MahjongTable& self) { return int{self.table.pub.dealer}; })
      .def_prop_ro("honba", [](const MahjongTable& self) { return int{self.table.pub.honba}; })
      .def_prop_ro("sticks", [](const MahjongTable& self) { return int{self.table.pub.sticks}; })
      .def_prop_ro("tiles_left", [](const MahjongTable& self) { return int{self.table.pub.live_left}; })
      .def_prop_ro("scores",
                   [](const MahjongTable& self) {
                     nb::list scores;
                     for (const Seat& seat : self.table.pub.seats) scores.append(seat.score);
                     return scores;
                   })
      .def_prop_ro("places", [](const MahjongTable& self) { return game_result(self.table).place; })
      .def_prop_ro("points", [](const MahjongTable& self) { return game_result(self.table).points; })
      .def(
          "hand",
          [](const MahjongTable& self, int player) {
            return format_tiles(self.table.own[static_cast<std::size_t>(seat_of(player))].hand.tiles());
          },
          "player"_a)
      .def(
          "legal",
          [](const MahjongTable& self, int player) { return indices(policy_mask(self.legal(player))); },
          "player"_a)
      .def(
          "kans", [](const MahjongTable& self, int player) { return indices(kan_kinds(self.legal(player))); },
          "player"_a)
      .def(
          "describe",
          [](const MahjongTable& self, int player, int action, const std::optional<int>& kan) {
            return to_string(self.action(player, action, kan));
          },
          "player"_a, "action"_a, "kan"_a.none())
      .def(
          "act",
          [](MahjongTable& self, int player, int action, const std::optional<int>& kan) {
            apply(self.table, player, self.action(player, action, kan), &self.events);
          },
          "player"_a, "action"_a, "kan"_a.none())
      .def("next_round", [](MahjongTable& self) { next_round(self.table, &self.events); })
      .def(
          "observe",
          [](const MahjongTable& self, int player, bool context, bool outlook) {
            const EncoderOptions options{.context = context, .outlook = outlook};
            std::vector<float> values(static_cast<std::size_t>(options.channels()) * kKinds);
            encode(observe(self.table, seat_of(player)), values, options);
            return Tensor::from(values, {options.channels(), kKinds});
          },
          "player"_a, "context"_a, "outlook"_a)
      .def(
          "mjai",
          [](const MahjongTable& self, int viewer) {
            std::string text;
            for (const Event& event : self.events) text += to_mjai(event, viewer) + "\n";
            return text;
          },
          "viewer"_a);
}

nb::dict shanten_of(const std::string& text) {
  const Hand hand = make_hand(text);
  const int melds = (14 - hand.size) / 3;
  const Shanten s = shanten_forms(hand, melds);
  nb::dict result;
  result["shanten"] = s.best();
  result["standard"] = s.standard;
  if (melds == 0) {
    result["seven_pairs"] = s.seven_pairs;
    result["thirteen_orphans"] = s.thirteen_orphans;
  }
  nb::list list;
  const auto add = [&](const Hand& rest, nb::object discard) {
    const Acceptance accepted = acceptance(rest, melds, {});
    nb::dict entry;
    entry["discard"] = discard;
    entry["tiles"] = accepted.tiles;
    entry["kinds"] = tile_names(accepted.kinds);
    list.append(entry);
  };
  if (hand.size % 3 == 1) {
    add(hand, nb::none());
  } else {
    for_each_kind(best_discards(hand, melds).kinds, [&](Kind kind) {
      Hand rest = hand;
      rest.remove_kind(kind);
      add(rest, nb::cast(std::string(tile_name(kind))));
    });
  }
  result["accepts"] = list;
  return result;
}

std::uint8_t wind_of(int value, const char* name) {
  INGOT_CHECK(value >= 1 && value <= 4,
              InvalidConfig(name, "is " + std::to_string(value) + ", expected 1 to 4 (E S W N)"));
  return static_cast<std::uint8_t>(value - 1);
}

struct WinFlags {
  bool tsumo, riichi, double_riichi, ippatsu, last_tile, rinshan, chankan, first_turn;
};

nb::dict score_of(const std::string& tiles, const std::string& win,
                  const std::vector<std::string>& meld_texts, const std::string& dora_text,
                  const std::string& ura_text, int seat_wind, int round_wind, const std::string& rules_name,
                  const std::array<bool, 8>& given) {
  const WinFlags flags{given[0], given[1], given[2], given[3], given[4], given[5], given[6], given[7]};
  std::vector<Meld> melds;
  melds.reserve(meld_texts.size());
  for (const std::string& text : meld_texts) melds.push_back(parse_meld(text));
  const Hand hand = make_hand(tiles);
  const std::vector<Tile> dora = parse_tiles(dora_text), ura = parse_tiles(ura_text), last = parse_tiles(win);
  INGOT_CHECK(last.size() == 1, InvalidConfig("win", "'" + win + "' is not one tile, like 5m"));
  INGOT_CHECK(ura.empty() || flags.riichi || flags.double_riichi,
              InvalidConfig("ura", "is turned over after riichi; give riichi or double_riichi, too"));
  INGOT_CHECK(ura.size() <= dora.size(),
              InvalidConfig("ura", "has " + std::to_string(ura.size()) + " indicators, but " +
                                       std::to_string(dora.size()) + " lie above; give dora, too"));
  const WinQuery query{.hand = hand,
                       .melds = melds,
                       .win_tile = last[0],
                       .tsumo = flags.tsumo,
                       .riichi = flags.riichi,
                       .double_riichi = flags.double_riichi,
                       .ippatsu = flags.ippatsu,
                       .last_tile = flags.last_tile,
                       .rinshan = flags.rinshan,
                       .chankan = flags.chankan,
                       .first_turn = flags.first_turn,
                       .seat_wind = wind_of(seat_wind, "seat_wind"),
                       .round_wind = wind_of(round_wind, "round_wind"),
                       .indicators = dora,
                       .ura_indicators = ura};
  const Rules rules = Rules::named(rules_name);
  check_win_query(query, rules);
  const WinScore s = score_win(query, rules);
  const Payment pay = payment_for(s.base, query.seat_wind == 0);
  nb::list yaku;
  for (int y = 0; y < static_cast<int>(Yaku::kCount); ++y)
    if (s.has(static_cast<Yaku>(y))) yaku.append(std::string(yaku_name(static_cast<Yaku>(y))));
  nb::dict result;
  result["win"] = s.is_win();
  result["yaku"] = yaku;
  result["han"] = int{s.han};
  result["fu"] = int{s.fu};
  result["yakuman"] = int{s.yakuman};
  result["ron"] = pay.ron;
  result["tsumo_from_non_dealer"] = pay.from_non_dealer;
  result["tsumo_from_dealer"] = pay.from_dealer;
  return result;
}

nb::tuple pair_of(const Estimate& e) { return nb::make_tuple(e.mean, e.half_width); }

nb::dict dict_of(const ArenaScore& s) {
  nb::dict result;
  result["name"] = s.name;
  result["games"] = s.games;
  result["rounds"] = s.rounds;
  result["places"] = s.places;
  const std::pair<const char*, const Estimate*> estimates[] = {
      {"place", &s.place},     {"points", &s.points}, {"score", &s.score},  {"win", &s.win},
      {"deal_in", &s.deal_in}, {"call", &s.call},     {"riichi", &s.riichi}};
  for (const auto& [name, estimate] : estimates) result[name] = pair_of(*estimate);
  result["win_points"] = s.win_points;
  result["deal_in_points"] = s.deal_in_points;
  return result;
}

// The games are played on another thread, so that Ctrl-C is heard on this one.
ArenaReport play_arena(const std::array<Entrant, 4>& entrants, ArenaOptions options) {
  std::atomic<bool> stop = false;
  options.ended = [&stop] {
    if (stop) throw Error("the arena was interrupted");
  };
  std::future<ArenaReport> report =
      std::async(std::launch::async, [&] { return run_arena(entrants, options); });
  wait_interruptibly(
      [&](int milliseconds) {
        return report.wait_for(std::chrono::milliseconds(milliseconds)) == std::future_status::ready;
      },
      [&] {
        stop = true;
        report.wait();
      });
  return report.get();
}

nb::dict arena(const std::vector<std::string>& names, int walls, const std::string& rules,
               const std::string& length, std::uint64_t seed) {
  INGOT_CHECK(names.size() == 4,
              InvalidConfig("players",
                            std::to_string(names.size()) + " names; give two (one against three) or four"));
  INGOT_CHECK(walls >= 1 && walls <= 10'000'000,
              InvalidConfig("walls", "is " + std::to_string(walls) + ", expected 1 to 10000000"));
  std::array<Entrant, 4> entrants;
  for (std::size_t i = 0; i < 4; ++i) entrants[i] = entrant_named(names[i]);
  ArenaOptions options;
  options.rules = rules_of(rules, length);
  options.seed = seed;
  options.walls = walls;
  const ArenaReport report = play_arena(entrants, options);
  nb::list list, tests;
  for (const ArenaScore& score : report.entrants) list.append(dict_of(score));
  for (const PlaceTest& test : report.tests) {
    nb::dict entry;
    entry["first"] = test.first;
    entry["second"] = test.second;
    entry["place_difference"] = pair_of(test.difference);
    entry["p"] = test.p;
    tests.append(entry);
  }
  nb::dict result;
  result["games"] = report.games;
  result["seconds"] = report.seconds;
  result["entrants"] = list;
  result["tests"] = tests;
  result["text"] = format_report(report);
  return result;
}

void bind_log(nb::module_& module) {
  nb::class_<GameLog>(module, "_MahjongLog")
      .def_static(
          "read",
          [](const std::string& path, const std::string& rules, const std::string& length) {
            return read_log(path, rules_of(rules, length));
          },
          "path"_a, "rules"_a, "length"_a, ReleaseGil())
      .def_prop_ro("names", [](const GameLog& self) { return self.names; })
      .def_prop_ro("rounds", [](const GameLog& self) { return self.rounds.size(); })
      .def_prop_ro("scores", [](const GameLog& self) { return self.final_scores; })
      .def_prop_ro("points", [](const GameLog& self) { return self.final_points; })
      .def("mjai",
           [](const GameLog& self) {
             Events events;
             for (const LogRound& round : self.rounds)
               events.insert(events.end(), round.events.begin(), round.events.end());
             return to_mjai(events);
           })
      .def("replay",
           [](const GameLog& self) {
             const ReplayCounts counts = replay(self);
             nb::dict result;
             result["rounds"] = counts.rounds;
             result["actions"] = counts.actions;
             result["wins"] = counts.wins;
             result["draws"] = counts.draws;
             result["scores"] = counts.scores;
             result["over"] = counts.over;
             return result;
           })
      .def(
          "review",
          [](const GameLog& self, const std::string& player, int seat) {
            return review_page(review_game(self, open_network_player(player)->net(), player), seat_of(seat));
          },
          "player"_a, "seat"_a, ReleaseGil());
}

}  // namespace

void bind_mahjong(nb::module_& module) {
  bind_table(module);
  bind_log(module);
  module.def("_mahjong_shanten", shanten_of, "hand"_a);
  module.def("_mahjong_score", score_of, "hand"_a, "win"_a, "melds"_a, "dora"_a, "ura"_a, "seat_wind"_a,
             "round_wind"_a, "rules"_a, "flags"_a);
  module.def("_mahjong_arena", arena, "players"_a, "walls"_a, "rules"_a, "length"_a, "seed"_a);
  module.def("_mahjong_action_names", [] {
    nb::list names;
    for (int i = 0; i < kPolicyActions; ++i) names.append(policy_name(i));
    return names;
  });
}

}  // namespace ingot::python
