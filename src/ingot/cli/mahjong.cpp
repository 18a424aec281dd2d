#include <algorithm>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/cli/verbs.h"
#include "ingot/mahjong/arena.h"
#include "ingot/mahjong/log.h"
#include "ingot/mahjong/shanten.h"
#include "ingot/mahjong/terminal.h"
#include "ingot/mahjong/tracker.h"

namespace ingot::cli {
namespace {

using namespace ingot::mahjong;
using Json = nlohmann::ordered_json;

struct Options {
  std::string rules = "tenhou", opponents = "rule-based", player = "human", hand, win, dora, ura;
  std::vector<std::string> files, players, melds;
  std::uint64_t seed = 1;
  std::int64_t walls = 100, seat_wind = 1, round_wind = 1, seat = 0;
  bool mjai = false, json = false, watch = false, tsumo = false, riichi = false, ippatsu = false;
};

bool color() { return isatty(STDOUT_FILENO) != 0; }

int play(const Options& o) {
  const bool human = o.player == "human";
  if (o.mjai) {
    run_mjai_client(std::cin, std::cout, Rules::named(o.rules), player_named(human ? "rule-based" : o.player),
                    o.seed);
    return 0;
  }
  if (o.seat < 0 || o.seat > 3) throw InvalidConfig("seat", fmt::format("is {}, expected 0 to 3", o.seat));
  std::array<std::unique_ptr<ActionSelector>, 4> players;
  for (std::size_t p = 0; p < 4; ++p) {
    const bool own = p == static_cast<std::size_t>(o.seat);
    if (own && human)
      players[p] = std::make_unique<TerminalPlayer>(std::cin, std::cout, color());
    else
      players[p] = player_named(own ? o.player : o.opponents)(o.seed * 4 + p);
  }
  Events events;
  std::size_t told = 0;
  Table table = start_game(Rules::named(o.rules), seed_from_number(o.seed), 0, &events);
  const auto tell = [&] {
    for (; told < events.size(); ++told) {
      const std::string line = describe(events[told]);
      if (!line.empty()) fmt::print("{}\n", line);
    }
    std::fflush(stdout);
  };
  while (!table.over()) {
    tell();
    if (table.pub.phase == Phase::RoundOver) {
      next_round(table, &events);
      continue;
    }
    if (!human && o.watch && table.pub.phase == Phase::Turn) fmt::print("\n{}", draw_table(table, color()));
    const unsigned asked = table.to_act();
    for (int player = 0; player < 4; ++player) {
      if ((asked >> player & 1) == 0) continue;
      auto& selector = *players[static_cast<std::size_t>(player)];
      apply(table, player, selector.select(observe(table, player), legal_actions(table, player)), &events);
    }
  }
  tell();
  const GameResult result = game_result(table);
  for (std::size_t p = 0; p < 4; ++p)
    fmt::print("player {}: place {}, {:+.1f}\n", p, result.place[p] + 1, result.points[p]);
  return 0;
}

Json report_json(const ArenaReport& report) {
  const auto estimate = [](const Estimate& e) {
    return Json{{"mean", e.mean}, {"half_width_95", e.half_width}};
  };
  Json list = Json::array();
  for (const ArenaScore& s : report.entrants)
    list.push_back({{"name", s.name},
                    {"games", s.games},
                    {"rounds", s.rounds},
                    {"places", s.places},
                    {"place", estimate(s.place)},
                    {"points", estimate(s.points)},
                    {"score", estimate(s.score)},
                    {"win", estimate(s.win)},
                    {"deal_in", estimate(s.deal_in)},
                    {"call", estimate(s.call)},
                    {"riichi", estimate(s.riichi)},
                    {"tsumo_share", estimate(s.tsumo)},
                    {"win_points", s.win_points},
                    {"deal_in_points", s.deal_in_points}});
  return {{"games", report.games}, {"seconds", report.seconds}, {"entrants", std::move(list)}};
}

int arena(const Options& o) {
  std::vector<std::string> names = o.players;
  if (names.empty()) names = {"rule-based", "tsumogiri"};
  if (names.size() == 2) names.resize(4, std::string(names[1]));
  if (names.size() != 4)
    throw InvalidConfig("players",
                        fmt::format("{} names; give two (one against three) or four", names.size()));
  if (o.walls < 1 || o.walls > 10'000'000)
    throw InvalidConfig("walls", fmt::format("is {}, expected 1 to 10000000", o.walls));
  std::array<Entrant, 4> entrants;
  for (std::size_t i = 0; i < 4; ++i) entrants[i] = {names[i], player_named(names[i])};
  ArenaOptions options;
  options.rules = Rules::named(o.rules);
  options.seed = o.seed;
  options.walls = static_cast<int>(o.walls);
  const ArenaReport report = run_arena(entrants, options);
  fmt::print("{}", o.json ? report_json(report).dump() + "\n" : format_report(report));
  return 0;
}

int replay_file(const Options& o) {
  const GameLog log = read_log(o.files.at(0), Rules::named(o.rules));
  int round = -1, honba = -1;
  replay(log, [&](const Table& table, int player, const Action& action) {
    if (o.json || action.type == ActionType::Pass) return;
    if (table.pub.round != round || table.pub.honba != honba)
      fmt::print("\n--- round {}, honba {} ---\n", table.pub.round + 1, table.pub.honba);
    round = table.pub.round;
    honba = table.pub.honba;
    if (o.watch) fmt::print("\n{}", draw_table(table, color()));
    fmt::print("player {}: {}\n", player, to_string(action));
  });
  if (!o.json) return 0;
  Event event;
  fmt::print("{}\n", to_mjai(event));
  for (const LogRound& part : log.rounds)
    for (const Event& one : part.events) fmt::print("{}\n", to_mjai(one));
  event.type = EventType::EndGame;
  if (log.complete.value_or(false)) fmt::print("{}\n", to_mjai(event));
  return 0;
}

int validate(const Options& o) {
  std::vector<std::string> files;
  for (const std::string& file : o.files) {
    if (!std::filesystem::is_directory(file)) {
      files.push_back(file);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(file))
      if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  ReplayCounts all;
  std::size_t good = 0;
  for (const std::string& file : files) {
    try {
      const ReplayCounts counts = replay(read_log(file, Rules::named(o.rules)));
      all.rounds += counts.rounds;
      all.actions += counts.actions;
      all.wins += counts.wins;
      ++good;
    } catch (const Error& error) {
      fmt::print(stderr, "{}\n", error.what());
    }
  }
  fmt::print("{} of {} logs replay exactly: {} rounds, {} decisions, {} wins\n", good, files.size(),
             all.rounds, all.actions, all.wins);
  return good == files.size() ? 0 : 1;
}

Meld parse_meld(const std::string& text) {
  const bool closed = text.starts_with('-');
  const std::vector<Tile> tiles = parse_tiles(closed ? text.substr(1) : text);
  if (tiles.size() < 3 || tiles.size() > 4)
    throw InvalidHand(
        fmt::format("meld \"{}\" has {} tiles; write 3 or 4, a closed kan as -1111z", text, tiles.size()));
  Meld meld;
  const bool run = kind_of(tiles[0]) != kind_of(tiles[1]);
  meld.type = run                 ? MeldType::Chi
              : tiles.size() == 3 ? MeldType::Pon
              : closed            ? MeldType::Ankan
                                  : MeldType::Daiminkan;
  meld.called = tiles[0];
  std::copy(tiles.begin() + 1, tiles.end(), meld.consumed.begin());
  return meld;
}

std::uint8_t wind(std::int64_t value, const char* option) {
  if (value < 1 || value > 4)
    throw InvalidConfig(option, fmt::format("is {}, expected 1 to 4 (E S W N)", value));
  return static_cast<std::uint8_t>(value - 1);
}

int score(const Options& o) {
  std::vector<Meld> melds;
  for (const std::string& text : o.melds) melds.push_back(parse_meld(text));
  const Hand hand = make_hand(o.hand);
  const std::vector<Tile> dora = parse_tiles(o.dora), ura = parse_tiles(o.ura), win = parse_tiles(o.win);
  if (win.size() != 1) throw InvalidConfig("win", "is one tile, like 5m");
  WinQuery q{.hand = hand,
             .melds = melds,
             .win_tile = win[0],
             .tsumo = o.tsumo,
             .riichi = o.riichi,
             .ippatsu = o.ippatsu};
  q.seat_wind = wind(o.seat_wind, "seat-wind");
  q.round_wind = wind(o.round_wind, "round-wind");
  q.indicators = dora;
  q.ura_indicators = ura;
  check_win_query(q);
  const WinScore s = score_win(q, Rules::named(o.rules));
  const bool dealer = q.seat_wind == 0;
  const Payment pay = payment_for(s.base, dealer);
  std::vector<std::string> yaku;
  for (int y = 0; y < static_cast<int>(Yaku::kCount); ++y)
    if (s.has(static_cast<Yaku>(y))) yaku.emplace_back(yaku_name(static_cast<Yaku>(y)));
  if (o.json) {
    fmt::print("{}\n", Json{{"win", s.is_win()},
                            {"yaku", yaku},
                            {"han", s.han},
                            {"fu", s.fu},
                            {"yakuman", s.yakuman},
                            {"ron", pay.ron},
                            {"tsumo_from_non_dealer", pay.from_non_dealer},
                            {"tsumo_from_dealer", pay.from_dealer}}
                           .dump());
    return s.is_win() ? 0 : 1;
  }
  if (!s.is_win()) {
    const bool complete = is_complete(hand, static_cast<int>(melds.size()));
    fmt::print("no win: {}\n", complete ? "complete, but without a yaku" : "the hand is not complete");
    return 1;
  }
  fmt::print("{}\n{} han {} fu: ", fmt::join(yaku, "\n"), s.han, s.fu);
  if (!o.tsumo)
    fmt::print("{} from the discarder\n", pay.ron);
  else if (dealer)
    fmt::print("{} from each\n", pay.from_non_dealer);
  else
    fmt::print("{} from each, {} from the dealer\n", pay.from_non_dealer, pay.from_dealer);
  return 0;
}

void print_acceptance(const Acceptance& accepted) {
  fmt::print("{} tiles:", accepted.tiles);
  for_each_kind(accepted.kinds, [](Kind kind) { fmt::print(" {}", tile_name(kind)); });
  fmt::print("\n");
}

int show_shanten(const Options& o) {
  const Hand hand = make_hand(o.hand);
  const int melds = (14 - hand.size) / 3;
  const Shanten s = shanten_forms(hand, melds);
  fmt::print("shanten {} (standard {}", s.best(), s.standard);
  if (melds == 0) fmt::print(", seven pairs {}, thirteen orphans {}", s.seven_pairs, s.thirteen_orphans);
  fmt::print(")\n");
  if (hand.size % 3 == 1) {
    print_acceptance(acceptance(hand, melds, {}));
    return 0;
  }
  for_each_kind(hand.kinds(), [&](Kind kind) {
    Hand rest = hand;
    rest.remove_kind(kind);
    if (shanten(rest, melds) > std::max(s.best(), 0)) return;
    fmt::print("discard {}: ", tile_name(kind));
    print_acceptance(acceptance(rest, melds, {}));
  });
  return 0;
}

}  // namespace

void add_mahjong(Command& root) {
  auto o = std::make_shared<Options>();
  const std::vector<std::string> presets = {"tenhou", "majsoul", "european"};
  Command verb =
      root.verb("mahjong", "Riichi mahjong: play, compare players, replay and check logs, score hands");

  verb.run([]() -> int {
    throw InvalidConfig("mahjong", "needs one of play, arena, replay, validate, score, shanten");
  });

  Command playing = verb.verb("play", "Play or watch a game in the terminal, or serve as an mjai client");
  playing.option("--player", o->player, "human, random, first-legal, tsumogiri or rule-based");
  playing.option("--opponents", o->opponents, "Who takes the other three seats");
  playing.option("--seat", o->seat, "Where the player sits, 0 to 3 (0 deals first)");
  playing.option("--rules", o->rules, "Rules").one_of(presets);
  playing.option("--seed", o->seed, "Seed of the game");
  playing.flag("--watch", o->watch, "With a program as player: show the open table before each turn");
  playing.flag("--mjai", o->mjai, "Speak mjai on standard input and output");
  playing.example("ingot mahjong play", "you against three rule-based players");
  playing.run([o] { return play(*o); });

  Command contest = verb.verb("arena", "Let players play many games on the same walls from every seat");
  contest.option("players", o->players, "Two names (one against three) or four");
  contest.option("--walls", o->walls, "Walls; each is played four times");
  contest.option("--rules", o->rules, "Rules").one_of(presets);
  contest.option("--seed", o->seed, "Seed of the walls and players");
  contest.flag("--json", o->json, "Print JSON");
  contest.example("ingot mahjong arena rule-based tsumogiri --walls 250",
                  "1000 games with confidence intervals");
  contest.run([o] { return arena(*o); });

  Command replaying =
      verb.verb("replay", "Show the decisions of a log (Tenhou XML, tenhou.net/6, mjai; .gz too)");
  replaying.option("log", o->files, "The log").required();
  replaying.option("--rules", o->rules, "Rules of mjai logs, which do not name theirs").one_of(presets);
  replaying.flag("--watch", o->watch, "Show the open table before each decision");
  replaying.flag("--json", o->json, "Print the game as mjai instead");
  replaying.run([o] { return replay_file(*o); });

  Command checking = verb.verb("validate", "Replay logs and name the first event of each that cannot be");
  checking.option("logs", o->files, "Files or directories").required();
  checking.option("--rules", o->rules, "Rules of mjai logs, which do not name theirs").one_of(presets);
  checking.run([o] { return validate(*o); });

  Command scoring = verb.verb("score", "Yaku, fu and points of a winning hand");
  scoring.option("hand", o->hand, "Concealed tiles with the winning one, like 234m055p678s11z (0: red five)")
      .required();
  scoring.option("--win", o->win, "The winning tile").required();
  scoring.option("--meld", o->melds, "A called group, like 777z; a closed kan is -1111z");
  scoring.option("--dora", o->dora, "Dora indicators");
  scoring.option("--ura", o->ura, "Ura dora indicators");
  scoring.option("--seat-wind", o->seat_wind, "1 to 4: E S W N");
  scoring.option("--round-wind", o->round_wind, "1 to 4: E S W N");
  scoring.option("--rules", o->rules, "Rules").one_of(presets);
  scoring.flag("--tsumo", o->tsumo, "Won by one's own draw");
  scoring.flag("--riichi", o->riichi, "After riichi");
  scoring.flag("--ippatsu", o->ippatsu, "Within one turn of riichi");
  scoring.flag("--json", o->json, "Print JSON");
  scoring.example("ingot mahjong score 234m055p678s345s11z --win 2m --riichi", "a closed hand won by ron");
  scoring.run([o] { return score(*o); });

  Command counting = verb.verb("shanten", "How far a hand is from tenpai, and what brings it nearer");
  counting.option("hand", o->hand, "13 or 14 tiles, or fewer by three for each called group").required();
  counting.example("ingot mahjong shanten 123m456p789s1234z", "2 from tenpai, with the tiles that help");
  counting.run([o] { return show_shanten(*o); });
}

}  // namespace ingot::cli
