#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/plural.h"
#include "ingot/base/printable.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/mahjong_games.h"
#include "ingot/mahjong/arena.h"
#include "ingot/mahjong/meld_text.h"
#include "ingot/mahjong/shanten.h"
#include "ingot/rl/mahjong_player.h"

namespace ingot::cli {
namespace {

using namespace ingot::mahjong;
using Json = nlohmann::ordered_json;

Json tile_names(KindSet kinds) {
  Json names = Json::array();
  for_each_kind(kinds, [&](Kind kind) { names.push_back(tile_name(kind)); });
  return names;
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
  Json tests = Json::array();
  for (const PlaceTest& t : report.tests)
    tests.push_back(
        {{"first", t.first}, {"second", t.second}, {"place_difference", estimate(t.difference)}, {"p", t.p}});
  Json json = {{"games", report.games},
               {"seconds", report.seconds},
               {"entrants", std::move(list)},
               {"tests", std::move(tests)}};
  if (report.sequential)
    json["sequential"] = {{"verdict", verdict_name(report.sequential->verdict)},
                          {"walls", report.sequential->walls},
                          {"margin", report.sequential->options.margin},
                          {"error", report.sequential->options.error},
                          {"log_likelihood_ratio", report.sequential->log_likelihood_ratio},
                          {"bound", report.sequential->bound}};
  return json;
}

int arena(const MahjongOptions& o) {
  std::vector<std::string> names = o.players;
  if (names.empty()) names = {"rule-based", "tsumogiri"};
  if (names.size() == 2) names.resize(4, std::string(names[1]));
  if (names.size() != 4)
    throw InvalidConfig("players",
                        fmt::format("{} names; give two (one against three) or four", names.size()));
  if (o.walls < 1 || o.walls > 10'000'000)
    throw InvalidConfig("walls", fmt::format("is {}, expected 1 to 10000000", o.walls));
  std::array<Entrant, 4> entrants;
  for (std::size_t i = 0; i < 4; ++i) entrants[i] = entrant_named(names[i]);
  ArenaOptions options;
  options.rules = rules_of(o);
  options.seed = o.seed;
  options.walls = static_cast<int>(o.walls);
  if (!o.bank.empty()) {
    const WallBank bank = wall_bank(o.bank);
    if (o.walls > bank.walls)
      throw InvalidConfig("walls", fmt::format("is {}, but the bank has {}", o.walls, bank.walls));
    options.seed = bank.seed;
  }
  if (o.sequential) options.sequential = SequentialOptions{.margin = *o.sequential, .error = o.error};
  const ArenaReport report = run_arena(entrants, options);
  fmt::print("{}", o.json ? printable_json(dump_json(report_json(report))) + "\n"
                          : printable(format_report(report), LineEnds::keep));
  return 0;
}

std::uint8_t wind(std::int64_t value, const char* option) {
  if (value < 1 || value > 4)
    throw InvalidConfig(option, fmt::format("is {}, expected 1 to 4 (E S W N)", value));
  return static_cast<std::uint8_t>(value - 1);
}

int score(const MahjongOptions& o) {
  std::vector<Meld> melds;
  for (const std::string& text : o.melds) melds.push_back(parse_meld(text));
  const Hand hand = make_hand(o.hand);
  const std::vector<Tile> dora = parse_tiles(o.dora), ura = parse_tiles(o.ura), win = parse_tiles(o.win);
  if (win.size() != 1) throw InvalidConfig("win", "is one tile, like 5m");
  if (!ura.empty() && !o.riichi && !o.double_riichi)
    throw InvalidConfig("ura", "is turned over after riichi; give --riichi or --double-riichi, too");
  if (ura.size() > dora.size())
    throw InvalidConfig("ura", fmt::format("has {}, but {} lies above; give --dora, too",
                                           counted(std::ssize(ura), "indicator"),
                                           counted(std::ssize(dora), "dora indicator")));
  WinQuery q{.hand = hand,
             .melds = melds,
             .win_tile = win[0],
             .tsumo = o.tsumo,
             .riichi = o.riichi,
             .double_riichi = o.double_riichi,
             .ippatsu = o.ippatsu,
             .last_tile = o.last_tile,
             .rinshan = o.rinshan,
             .chankan = o.chankan,
             .first_turn = o.first_turn};
  q.seat_wind = wind(o.seat_wind, "seat-wind");
  q.round_wind = wind(o.round_wind, "round-wind");
  q.indicators = dora;
  q.ura_indicators = ura;
  const Rules rules = Rules::named(o.rules);
  check_win_query(q, rules);
  const WinScore s = score_win(q, rules);
  const bool dealer = q.seat_wind == 0;
  const Payment pay = payment_for(s.base, dealer);
  std::vector<std::string> yaku;
  for (int y = 0; y < static_cast<int>(Yaku::kCount); ++y)
    if (s.has(static_cast<Yaku>(y))) yaku.emplace_back(yaku_name(static_cast<Yaku>(y)));
  if (o.json) {
    fmt::print("{}\n", printable_json(dump_json(Json{{"win", s.is_win()},
                                                     {"yaku", yaku},
                                                     {"han", s.han},
                                                     {"fu", s.fu},
                                                     {"yakuman", s.yakuman},
                                                     {"ron", pay.ron},
                                                     {"tsumo_from_non_dealer", pay.from_non_dealer},
                                                     {"tsumo_from_dealer", pay.from_dealer}})));
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

// What a hand of 3n + 1 tiles waits for, or which discards of one of 3n + 2 leave it as near.
struct NextTiles {
  Tile discard;  // kNoTile: none is needed
  Acceptance accepted;
};

std::vector<NextTiles> next_tiles(const Hand& hand, int melds, int distance) {
  if (hand.size % 3 == 1) return {{kNoTile, acceptance(hand, melds, {})}};
  std::vector<NextTiles> next;
  for_each_kind(hand.count.kinds(), [&](Kind kind) {
    Hand rest = hand;
    rest.remove_kind(kind);
    if (shanten(rest, melds) <= std::max(distance, 0)) next.push_back({kind, acceptance(rest, melds, {})});
  });
  return next;
}

Json shanten_json(const Shanten& s, int melds, const std::vector<NextTiles>& next) {
  Json json{{"shanten", s.best()}, {"standard", s.standard}};
  if (melds == 0) json.update({{"seven_pairs", s.seven_pairs}, {"thirteen_orphans", s.thirteen_orphans}});
  Json list = Json::array();
  for (const NextTiles& one : next) {
    Json entry;
    if (one.discard != kNoTile) entry["discard"] = tile_name(one.discard);
    entry.update({{"tiles", one.accepted.tiles}, {"kinds", tile_names(one.accepted.kinds)}});
    list.push_back(std::move(entry));
  }
  json["accepts"] = std::move(list);
  return json;
}

int show_shanten(const MahjongOptions& o) {
  const Hand hand = make_hand(o.hand);
  const int melds = (14 - hand.size) / 3;
  const Shanten s = shanten_forms(hand, melds);
  const std::vector<NextTiles> next = next_tiles(hand, melds, s.best());
  if (o.json) return fmt::print("{}\n", printable_json(dump_json(shanten_json(s, melds, next)))), 0;
  fmt::print("shanten {} (standard {}", s.best(), s.standard);
  if (melds == 0) fmt::print(", seven pairs {}, thirteen orphans {}", s.seven_pairs, s.thirteen_orphans);
  fmt::print(")\n");
  for (const NextTiles& one : next) {
    if (one.discard != kNoTile) fmt::print("discard {}: ", tile_name(one.discard));
    fmt::print("{} tiles:", one.accepted.tiles);
    for_each_kind(one.accepted.kinds, [](Kind kind) { fmt::print(" {}", tile_name(kind)); });
    fmt::print("\n");
  }
  return 0;
}

}  // namespace

void add_mahjong(Command& root) {
  auto o = std::make_shared<MahjongOptions>();
  const std::vector<std::string> presets = rule_presets(), lengths = game_lengths();
  Command command = root.subcommand(
      "mahjong", "Riichi mahjong: play, learn, compare players, review games, check logs, score hands");
  command.example("ingot mahjong play --watch", "four built-in players, every hand open");

  Command playing =
      command.subcommand("play", "Play or watch a game in the terminal, or serve as an mjai client");
  playing.option("--player", o->player,
                 "human, random, first-legal, tsumogiri, simple, rule-based or model:DIR[,temperature=T]");
  playing.option("--opponents", o->opponents, "Who takes the other three seats");
  playing.option("--seat", o->seat, "Where the player sits, 0 to 3 (0 deals first)");
  playing.option("--rules", o->rules, "Rules").one_of(presets);
  playing.option("--length", o->length, "Both winds, East alone, or a single round").one_of(lengths);
  playing.option("--seed", o->seed, "Seed of the game");
  playing.option("--save", o->save, "File for the game as mjai lines, which replay and validate read");
  playing.flag("--watch", o->watch,
               "Watch programs play, every hand open: keys change the speed, pause and step");
  playing.option("--delay", o->view.delay, "With --watch on a terminal: seconds between turns");
  playing.flag("--step", o->view.step, "With --watch on a terminal: wait for a key at each turn");
  playing.flag("--mjai", o->mjai, "Speak mjai on standard input and output");
  playing.option("--port", o->port, "With --mjai: over one connection to this TCP port of 127.0.0.1 instead");
  playing.example("ingot mahjong play", "you against three rule-based players");
  playing.example("ingot mahjong play --watch --delay 1.5", "watch four of them");
  playing.run([o] { return play_mahjong(*o); });

  Command contest =
      command.subcommand("arena", "Let players play many games on the same walls from every seat");
  contest.option("players", o->players,
                 "Two names (one against three) or four; a network is model:DIR[,temperature=T][,device=D]");
  contest.option("--walls", o->walls, "Walls; each is played four times");
  contest.option("--rules", o->rules, "Rules").one_of(presets);
  contest.option("--length", o->length, "Both winds, East alone, or a single round").one_of(lengths);
  contest.option("--seed", o->seed, "Seed of the walls and players");
  contest
      .option("--bank", o->bank,
              "In place of --seed: the fixed walls set aside for measuring, or those for choosing settings")
      .one_of({"evaluation", "ablation"});
  contest.option(
      "--sequential", o->sequential,
      "Stop once it is decided whether the first is this many places better, or no better; --walls is "
      "the most");
  contest.option("--error", o->error, "With --sequential: the chance of either wrong answer");
  contest.flag("--json", o->json, "Print JSON");
  contest.example("ingot mahjong arena rule-based tsumogiri --walls 250",
                  "1000 games with confidence intervals");
  contest.example("ingot mahjong arena rule-based simple --walls 5000 --bank evaluation --sequential 0.1",
                  "as few games as decide it");
  contest.example("ingot mahjong arena model:bc/model rule-based",
                  "a network against three rule-based players");
  contest.run([o] { return arena(*o); });

  add_mahjong_ladder(command);

  Command replaying =
      command.subcommand("replay", "Show the decisions of a log (Tenhou XML, tenhou.net/6, mjai; .gz too)");
  replaying.option("log", o->files, "The log; - is standard input").required();
  replaying
      .option("--rules", o->rules, "Rules of logs that do not name theirs (mjai, rooms that are not known)")
      .one_of(presets);
  replaying.option("--length", o->length, "Length of mjai games, which do not name theirs").one_of(lengths);
  replaying.flag("--watch", o->watch,
                 "Show the open table at each decision: keys change the speed, pause and step");
  replaying.option("--delay", o->view.delay, "With --watch on a terminal: seconds between decisions");
  replaying.flag("--step", o->view.step, "With --watch on a terminal: wait for a key at each decision");
  replaying.flag("--json", o->json, "Print the game as mjai instead");
  replaying.example("ingot mahjong replay game.json.gz --watch", "the table at each decision");
  replaying.run([o] { return replay_mahjong(*o); });

  Command reviewing =
      command.subcommand("review", "Write a page that goes through a game with a network's opinion");
  reviewing.option("log", o->files, "The log (Tenhou XML, tenhou.net/6, mjai; .gz too); - is standard input")
      .required();
  reviewing.option("--player", o->player, "The network: model:DIR[,device=D]").required();
  reviewing.option("-o,--out", o->out, "The page, .html");
  reviewing.option("--seat", o->seat, "Whose game is reviewed first, 0 to 3; the page can switch");
  reviewing.option("--rules", o->rules, "Rules of logs that do not name theirs").one_of(presets);
  reviewing.option("--length", o->length, "Length of mjai games, which do not name theirs").one_of(lengths);
  reviewing.example("ingot mahjong review game.json.gz --player model:bc/model -o review.html",
                    "then open review.html in a browser");
  reviewing.run([o] { return review_mahjong(*o); });

  Command checking =
      command.subcommand("validate", "Replay logs and name the first event of each that cannot be");
  checking.option("logs", o->files, "Files or directories; - is standard input").required();
  checking
      .option("--rules", o->rules, "Rules of logs that do not name theirs (mjai, rooms that are not known)")
      .one_of(presets);
  checking.option("--length", o->length, "Length of mjai games, which do not name theirs").one_of(lengths);
  checking.flag("--json", o->json, "Print JSON");
  checking.example("ingot mahjong validate logs", "every log below a directory");
  checking.run([o] { return validate_mahjong(*o); });

  add_mahjong_dataset(command);
  add_mahjong_train(command);

  Command scoring = command.subcommand("score", "Yaku, fu and points of a winning hand");
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
  scoring.flag("--double-riichi", o->double_riichi, "After riichi on the first turn");
  scoring.flag("--ippatsu", o->ippatsu, "Within one turn of riichi");
  scoring.flag("--last-tile", o->last_tile, "On the last draw (haitei) or discard (houtei)");
  scoring.flag("--rinshan", o->rinshan, "On the draw after a kan, with --tsumo");
  scoring.flag("--chankan", o->chankan, "On the tile that another adds to a pon");
  scoring.flag("--first-turn", o->first_turn, "Before any call: tenhou, chiihou, or renhou");
  scoring.flag("--json", o->json, "Print JSON");
  scoring.example("ingot mahjong score 234m055p678s345s11z --win 2m --riichi", "a closed hand won by ron");
  scoring.run([o] { return score(*o); });

  Command counting =
      command.subcommand("shanten", "How far a hand is from tenpai, and what brings it nearer");
  counting.option("hand", o->hand, "13 or 14 tiles, or fewer by three for each called group").required();
  counting.flag("--json", o->json, "Print JSON");
  counting.example("ingot mahjong shanten 123m456p789s1234z", "2 from tenpai, with the tiles that help");
  counting.run([o] { return show_shanten(*o); });
}

}  // namespace ingot::cli
