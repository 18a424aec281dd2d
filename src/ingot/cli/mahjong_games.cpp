#include "ingot/cli/mahjong_games.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/plural.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/mjai_port.h"
#include "ingot/mahjong/game_index.h"
#include "ingot/mahjong/log.h"
#include "ingot/mahjong/policy.h"
#include "ingot/mahjong/terminal.h"
#include "ingot/mahjong/tracker.h"
#include "ingot/rl/mahjong_player.h"
#include "ingot/rl/mahjong_review.h"

namespace ingot::cli {
namespace {

using namespace ingot::mahjong;
using Json = nlohmann::ordered_json;

bool color() { return wants_color(STDOUT_FILENO); }

using Players = std::array<std::unique_ptr<ActionSelector>, 4>;

// Everybody who is asked about `table` answers.
void decide(Table& table, const Players& players, Events& events) {
  const unsigned asked = table.to_act();
  for (int player = 0; player < 4; ++player) {
    if ((asked >> player & 1) == 0) continue;
    auto& selector = *players[static_cast<std::size_t>(player)];
    apply(table, player, selector.select(observe(table, player), legal_actions(table, player)), &events);
  }
}

// Plays a game. `told` is called before each decision and round, and at the end, with what happened since;
// false ends the game there.
Table play_game(const MahjongOptions& o, const Players& players, Events& events,
                const std::function<bool(const Table&, const std::vector<std::string>&)>& told) {
  Table table = start_game(rules_of(o), seed_from_number(o.seed), 0, &events);
  for (std::size_t known = 0;;) {
    std::vector<std::string> lines;
    for (; known < events.size(); ++known)
      if (std::string line = describe(events[known]); !line.empty()) lines.push_back(std::move(line));
    if (!told(table, lines) || table.over()) return table;
    if (table.pub.phase == Phase::RoundOver)
      next_round(table, &events);
    else
      decide(table, players, events);
  }
}

Table watch_game(const MahjongOptions& o, const Players& players, Events& events) {
  TableView view(o.view);
  return play_game(o, players, events, [&](const Table& table, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) view.say(line);
    if (table.pub.phase == Phase::Reaction) return true;
    return view.show(table, table.pub.phase == Phase::Turn ? 1 : 6);
  });
}

void print_mjai(const GameLog& log) {
  mahjong::Event event;
  fmt::print("{}\n", to_mjai(event));
  for (const LogRound& part : log.rounds)
    for (const mahjong::Event& one : part.events) fmt::print("{}\n", printable_json(to_mjai(one)));
  event.type = EventType::EndGame;
  if (log.complete.value_or(false)) fmt::print("{}\n", to_mjai(event));
}

void watch_replay(const GameLog& log, const MahjongOptions& o) {
  struct Stopped {};
  TableView view(o.view);
  try {
    replay(log, [&](const Table& table, int player, const Action& action) {
      if (action.type == ActionType::Pass) return;
      view.say(fmt::format("player {}: {}", player, to_string(action)));
      if (!view.show(table)) throw Stopped{};
    });
  } catch (const Stopped&) {
  }
}

}  // namespace

std::vector<std::string> rule_presets() { return {"tenhou", "majsoul", "european"}; }
std::vector<std::string> game_lengths() { return {"hanchan", "east", "round"}; }

Rules rules_of(const MahjongOptions& o) {
  Rules rules = Rules::named(o.rules);
  rules.length = game_length_named(o.length);
  return rules;
}

int play_mahjong(MahjongOptions o) {
  if (o.port.has_value() && !o.mjai) throw InvalidConfig("port", "goes with --mjai");
  if (o.player == "human" && (o.watch || o.mjai)) o.player = "rule-based";
  if (o.mjai) {
    const PlayerFactory player = mahjong_player(o.player);
    const auto talk = [&](std::istream& in, std::ostream& out) {
      run_mjai_client(in, out, rules_of(o), player, o.seed);
    };
    if (o.port.has_value())
      talk_on_port(*o.port, talk);
    else
      talk(std::cin, std::cout);
    return 0;
  }
  if (o.seat < 0 || o.seat > 3) throw InvalidConfig("seat", fmt::format("is {}, expected 0 to 3", o.seat));
  Players players;
  for (std::size_t p = 0; p < 4; ++p) {
    const bool own = p == static_cast<std::size_t>(o.seat);
    if (own && o.player == "human")
      players[p] = std::make_unique<TerminalPlayer>(std::cin, std::cout, color());
    else
      players[p] = mahjong_player(own ? o.player : o.opponents)(o.seed * 4 + p);
  }
  Events events;
  const auto tell = [](const Table&, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) fmt::print("{}\n", line);
    std::fflush(stdout);
    return true;
  };
  const Table table = o.watch ? watch_game(o, players, events) : play_game(o, players, events, tell);
  if (!o.save.empty()) write_log(o.save, to_mjai(events));
  if (!table.over()) return 0;
  const GameResult result = game_result(table);
  for (std::size_t p = 0; p < 4; ++p)
    fmt::print("player {}: place {}, {} points, {:+.1f}\n", p, result.place[p] + 1, table.pub.seats[p].score,
               result.points[p]);
  return 0;
}

int replay_mahjong(const MahjongOptions& o) {
  const GameLog log = read_log(o.files.at(0), rules_of(o));
  if (o.watch) return watch_replay(log, o), 0;
  int round = -1, honba = -1;
  replay(log, [&](const Table& table, int player, const Action& action) {
    if (o.json || action.type == ActionType::Pass) return;
    if (table.pub.round != round || table.pub.honba != honba)
      fmt::print("\n--- round {}, honba {} ---\n", table.pub.round + 1, table.pub.honba);
    round = table.pub.round;
    honba = table.pub.honba;
    fmt::print("player {}: {}\n", player, to_string(action));
  });
  if (o.json) print_mjai(log);
  return 0;
}

int validate_mahjong(const MahjongOptions& o) {
  const std::vector<std::string> files = files_under(o.files);
  ReplayCounts all;
  Json refused = Json::array();
  for (const std::string& file : files) {
    try {
      const ReplayCounts counts = replay(read_log(file, rules_of(o)));
      all.rounds += counts.rounds;
      all.actions += counts.actions;
      all.wins += counts.wins;
      all.draws += counts.draws;
      all.seeded += counts.seeded;
    } catch (const Error& error) {
      if (!o.json) fmt::print(stderr, "{}\n", printable_message(error));
      refused.push_back({{"file", file}, {"error", error.kind()}, {"message", error.what()}});
    }
  }
  const std::size_t good = files.size() - refused.size();
  if (o.json)
    fmt::print("{}\n", printable_json(dump_json(Json{{"logs", files.size()},
                                                     {"exact", good},
                                                     {"rounds", all.rounds},
                                                     {"rounds_with_seed", all.seeded},
                                                     {"decisions", all.actions},
                                                     {"wins", all.wins},
                                                     {"draws", all.draws},
                                                     {"refused", std::move(refused)}})));
  else
    fmt::print("{} of {} replay exactly: {} ({} dealt from their seed), {}, {}, {}\n", good,
               counted(std::ssize(files), "log"), counted(all.rounds, "round"), all.seeded,
               counted(all.actions, "decision"), counted(all.wins, "win"), counted(all.draws, "draw"));
  return good == files.size() ? 0 : 1;
}

int review_mahjong(const MahjongOptions& o) {
  if (o.seat < 0 || o.seat > 3) throw InvalidConfig("seat", fmt::format("is {}, expected 0 to 3", o.seat));
  check_ending("--out", o.out, {".html", ".htm"});
  const GameLog log = read_log(o.files.at(0), rules_of(o));
  const auto player = open_network_player(o.player);
  const GameReview review = review_game(log, player->net(), o.player);
  const auto seat = static_cast<int>(o.seat);
  write_file_atomically(o.out, review_page(review, seat));
  if (is_standard_output(o.out)) return 0;
  const auto mistakes = review.mistakes(seat);
  const auto decisions = std::ranges::count(review.decisions, seat, &ReviewedDecision::seat);
  fmt::print("{}: {} of seat {}'s {} decisions are as {} would take them; the dearest others:\n",
             printable(o.out), decisions - std::ssize(mistakes), seat, decisions, o.player);
  constexpr std::size_t kShown = 5;
  for (std::size_t i = 0; i < std::min(kShown, mistakes.size()); ++i) {
    const ReviewedDecision& d = review.decisions[mistakes[i]];
    fmt::print("  round {}: {}, not {} ({:.0f} %)\n", d.round + 1, policy_name(d.chosen),
               policy_name(d.policy.front().first), 100 * d.cost());
  }
  return 0;
}

}  // namespace ingot::cli
