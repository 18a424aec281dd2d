#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/plural.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/base/rng.h"
#include "ingot/base/stopwatch.h"
#include "ingot/cli/mahjong_games.h"
#include "ingot/mahjong/arena.h"
#include "ingot/mahjong/decision_stream.h"
#include "ingot/mahjong/encoder.h"
#include "ingot/mahjong/game_filter.h"
#include "ingot/mahjong/policy.h"
#include "ingot/rl/mahjong_player.h"

namespace ingot::cli {
namespace {

using namespace ingot::mahjong;
using Json = nlohmann::ordered_json;

struct DatasetOptions : MahjongOptions {
  std::int64_t games = 1000, count = 5;
  std::string out, index;
  GameFilter filter;
};

constexpr std::int64_t kMostGames = 10'000'000, kMostSamples = 100'000;

int generate_games(const DatasetOptions& o) {
  if (o.games < 1 || o.games > kMostGames)
    throw InvalidConfig("games", fmt::format("is {}, expected 1 to {}", o.games, kMostGames));
  const Entrant entrant = entrant_named(o.player);
  const Seed session = seed_from_number(o.seed);
  make_directories(o.out);
  constexpr std::int64_t kAtOnce = 256;
  ProgressBar bar({.label = "games", .total = o.games});
  for (std::int64_t first = 0; first < o.games; first += kAtOnce) {
    std::vector<Match> matches(static_cast<std::size_t>(std::min(kAtOnce, o.games - first)));
    std::vector<mahjong::Events> events(matches.size());
    for (std::size_t i = 0; i < matches.size(); ++i) {
      matches[i].nonce = static_cast<std::uint64_t>(first) + i;
      matches[i].entrants.fill(&entrant);
      for (std::size_t seat = 0; seat < 4; ++seat)
        matches[i].seeds[seat] = mix_stream(o.seed, matches[i].nonce * 4 + seat);
    }
    play_matches(
        rules_of(o), session, matches,
        [&](std::size_t i, const mahjong::Events& more) {
          events[i].insert(events[i].end(), more.begin(), more.end());
        },
        [&](std::size_t i, const Table&) {
          write_log(fmt::format("{}/game-{:07}.json.gz", o.out, matches[i].nonce),
                    to_mjai(events[i], {o.player, o.player, o.player, o.player}));
        });
    bar.update(first + std::ssize(matches));
  }
  bar.finish();
  fmt::print("{} in {}\n", counted(o.games, "game"), printable(o.out));
  return 0;
}

struct ActionShares {
  std::array<std::int64_t, 8> chosen{}, offered{};
  std::int64_t tenpai = 0, opponents = 0;
};

void count_decision(const LabelledDecision& d, ActionShares& shares) {
  unsigned kinds = 0;
  for (std::uint64_t rest = d.mask; rest != 0; rest &= rest - 1)
    kinds |= 1U << policy_kind(__builtin_ctzll(rest));
  for (std::size_t kind = 0; kind < shares.offered.size(); ++kind) shares.offered[kind] += kinds >> kind & 1;
  ++shares.chosen[policy_kind(d.action)];
  shares.tenpai += __builtin_popcount(d.tenpai);
  shares.opponents += 3;
}

// Of the logs, before and after the filter.
struct DatasetCounts {
  PlayerRecords players;
  FilterResult filtered;
  ActionShares shares;
  double rate = 0;  // positions a second
};

void print_players(const PlayerRecords& players) {
  if (players.empty()) return;
  std::vector<std::pair<std::string, PlayerRecord>> most(players.begin(), players.end());
  std::ranges::stable_sort(most, std::greater{}, [](const auto& one) { return one.second.games; });
  constexpr std::size_t kNamed = 10;
  fmt::print("\n{:<24}{:>8}{:>8}{:>8}{:>11}\n", "player", "games", "place", "win %", "deal-in %");
  for (std::size_t i = 0; i < std::min(kNamed, most.size()); ++i) {
    const auto& [name, record] = most[i];
    const std::string visible = printable(name);
    const std::string_view shown = fit_width(visible, 23);
    fmt::print("{}{}{:>8}{:>8}{:>8.1f}{:>11.1f}\n", shown,
               std::string(static_cast<std::size_t>(24 - display_width(shown)), ' '), record.games,
               record.whole_games > 0 ? fmt::format("{:.2f}", record.mean_place()) : "-",
               100 * record.win_rate(), 100 * record.deal_in_rate());
  }
  if (most.size() > kNamed) fmt::print("... {} more (--json lists all)\n", most.size() - kNamed);
}

void print_dataset(const GameIndex& index, const DatasetCounts& counts) {
  const ActionShares& shares = counts.shares;
  const double rate = counts.rate;
  std::int64_t rounds = 0;
  for (const IndexedGame& game : index.games()) rounds += game.rounds;
  fmt::print("{}, {}, {}; {} refused, {} twice\n", counted(std::ssize(index.games()), "game"),
             counted(rounds, "round"), counted(index.decisions(), "decision"), index.refused().size(),
             index.duplicates());
  if (counts.filtered.decisions > 0)
    fmt::print("  the filter leaves out {}, {} of {}\n", counted(counts.filtered.games, "game"),
               counted(counts.filtered.decisions, "decision"), counted(counts.filtered.players, "player"));
  constexpr std::size_t kNamed = 10;
  for (std::size_t i = 0; i < std::min(kNamed, index.refused().size()); ++i)
    fmt::print("  refused: {}\n", printable(index.refused()[i].error));
  if (index.refused().size() > kNamed) fmt::print("  ... (--json lists all)\n");
  if (index.games().empty()) return;
  fmt::print("\n{:<14}{:>12}{:>12}{:>10}\n", "action", "chosen", "legal", "share");
  for (std::size_t kind = 0; kind < policy_kinds().size(); ++kind)
    fmt::print("{:<14}{:>12}{:>12}{:>9.1f}%\n", policy_kinds()[kind], shares.chosen[kind],
               shares.offered[kind],
               100.0 * static_cast<double>(shares.chosen[kind]) /
                   static_cast<double>(std::max<std::int64_t>(1, shares.offered[kind])));
  fmt::print(
      "\nopponents are tenpai at {:.1f} % of decisions; read, labelled and encoded: {:.0f} positions/s\n",
      100.0 * static_cast<double>(shares.tenpai) /
          static_cast<double>(std::max<std::int64_t>(1, shares.opponents)),
      rate);
  print_players(counts.players);
}

// Rates that are not known are null.
Json players_json(const PlayerRecords& players) {
  Json list = Json::array();
  for (const auto& [name, record] : players)
    list.push_back({{"name", name},
                    {"games", record.games},
                    {"rounds", record.rounds},
                    {"mean_place", record.mean_place()},
                    {"win_rate", record.win_rate()},
                    {"deal_in_rate", record.deal_in_rate()}});
  return list;
}

Json dataset_json(const GameIndex& index, const DatasetCounts& counts) {
  const ActionShares& shares = counts.shares;
  Json actions = Json::object(), refused = Json::array();
  for (std::size_t kind = 0; kind < policy_kinds().size(); ++kind)
    actions[std::string(policy_kinds()[kind])] = {{"chosen", shares.chosen[kind]},
                                                  {"legal", shares.offered[kind]}};
  for (const IndexedGame& game : index.refused())
    refused.push_back({{"file", game.path}, {"error", game.error}});
  std::int64_t rounds = 0, over = 0;
  for (const IndexedGame& game : index.games()) {
    rounds += game.rounds;
    over += game.over ? 1 : 0;
  }
  return {{"games", index.games().size()},
          {"whole_games", over},
          {"rounds", rounds},
          {"decisions", index.decisions()},
          {"digest", index.digest()},
          {"duplicates", index.duplicates()},
          {"actions", std::move(actions)},
          {"tenpai_share", static_cast<double>(shares.tenpai) /
                               static_cast<double>(std::max<std::int64_t>(1, shares.opponents))},
          {"positions_per_second", counts.rate},
          {"filtered", {{"games", counts.filtered.games}, {"decisions", counts.filtered.decisions}}},
          {"players", players_json(counts.players)},
          {"refused", std::move(refused)}};
}

int dataset_stats(const DatasetOptions& o) {
  GameIndex index = GameIndex::build(o.files, rules_of(o), o.index);
  DatasetCounts counts{.players = player_records(index), .filtered = apply_filter(index, o.filter)};
  const EncoderOptions encoding{.context = true};
  std::vector<float> encoded(static_cast<std::size_t>(encoding.channels()) * kKinds);
  const Stopwatch watch;
  for (const IndexedGame& game : index.games())
    for (const LabelledDecision& d : label_game(read_log(game.path, index.rules())).decisions) {
      if (!game.seats[d.observation.seat].kept) continue;
      count_decision(d, counts.shares);
      encode(d.observation, encoded, encoding);
    }
  counts.rate = static_cast<double>(index.decisions()) / std::max(watch.seconds(), 1e-9);
  if (o.json)
    fmt::print("{}\n", printable_json(dump_json(dataset_json(index, counts))));
  else
    print_dataset(index, counts);
  return index.games().empty() ? 1 : 0;
}

std::string kinds_text(KindSet kinds) {
  std::vector<Tile> tiles;
  for_each_kind(kinds, [&](Kind kind) { tiles.push_back(kind); });
  return tiles.empty() ? "-" : format_tiles(tiles);
}

Json decision_json(const LabelledDecision& d) {
  Json legal = Json::array(), danger = Json::array();
  for (std::uint64_t rest = d.mask; rest != 0; rest &= rest - 1)
    legal.push_back(policy_name(__builtin_ctzll(rest)));
  for (const KindSet kinds : d.danger) danger.push_back(kinds_text(kinds));
  Json order;
  if (d.order < kOrders) order = order_of(d.order);
  return {{"seat", d.observation.seat},
          {"round", d.round},
          {"hand", format_tiles(d.observation.own.hand.tiles())},
          {"chosen", policy_name(d.action)},
          {"legal", std::move(legal)},
          {"tenpai", {(d.tenpai & 1) != 0, (d.tenpai & 2) != 0, (d.tenpai & 4) != 0}},
          {"danger", std::move(danger)},
          {"order", std::move(order)},
          {"round_return", d.round_return},
          {"game_return", d.game_return}};
}

int dataset_samples(const DatasetOptions& o) {
  if (o.count < 1 || o.count > kMostSamples)
    throw InvalidConfig("count", fmt::format("is {}, expected 1 to {}", o.count, kMostSamples));
  GameIndex index = GameIndex::build(o.files, rules_of(o), o.index);
  apply_filter(index, o.filter);
  DecisionStream stream(index, {.seed = o.seed});
  for (std::int64_t i = 0; i < o.count; ++i) {
    const LabelledDecision& d = stream.next(1)[0];
    if (o.json) {
      fmt::print("{}\n", printable_json(dump_json(decision_json(d))));
      continue;
    }
    fmt::print("seat {}, round {}: {}\n  {} of {} legal\n", d.observation.seat, d.round + 1,
               format_tiles(d.observation.own.hand.tiles()), policy_name(d.action),
               __builtin_popcountll(d.mask));
    fmt::print("  opponents win on {}, {}, {}\n", kinds_text(d.danger[0]), kinds_text(d.danger[1]),
               kinds_text(d.danger[2]));
    fmt::print("  the round brings {:+.0f} points, the game {:+.0f}\n", 10'000 * d.round_return,
               10'000 * d.game_return);
  }
  return 0;
}

void add_reading(Command& command, DatasetOptions& o) {
  command.option("logs", o.files, "Files or directories (Tenhou XML, tenhou.net/6, mjai; .gz too)")
      .required();
  command.option("--index", o.index, "File that remembers what was replayed already");
  command.option("--rules", o.rules, "Rules of logs that do not name theirs").one_of(rule_presets());
  command.option("--length", o.length, "Length of mjai games, which do not name theirs")
      .one_of(game_lengths());
  command.option("--name", o.filter.players,
                 "Only decisions of the player of this name in the logs (may be repeated)");
  command.option("--min-games", o.filter.min_games, "Only of players with so many games in the logs");
  command.option("--max-place", o.filter.max_mean_place, "Only of players whose mean place is at most this");
  command.option("--max-deal-in", o.filter.max_deal_in_rate,
                 "Only of players who deal in in at most this share of rounds");
  command.option("--min-win", o.filter.min_win_rate, "Only of players who win at least this share of rounds");
  command.flag("--whole-games", o.filter.whole_games, "Only games whose log goes to their end");
  command.flag("--json", o.json, "Print JSON");
}

}  // namespace

void add_mahjong_dataset(Command& mahjong) {
  auto o = std::make_shared<DatasetOptions>();
  o->player = "rule-based";
  Command command =
      mahjong.subcommand("dataset", "Games to learn from: make some, count them, look at decisions");
  command.example("ingot mahjong dataset generate --games 2000 -o games", "the logs of 2000 games");

  Command making =
      command.subcommand("generate", "Let a player play games against itself, and keep their logs");
  making.option("--player", o->player, "Who plays all four seats: a built-in player, or model:DIR");
  making.option("--games", o->games, "How many");
  making.option("-o,--out", o->out, "Directory for the logs (mjai, gzip)").required();
  making.option("--rules", o->rules, "Rules").one_of(rule_presets());
  making.option("--length", o->length, "Both winds, East alone, or a single round").one_of(game_lengths());
  making.option("--seed", o->seed, "Seed of the walls and players");
  making.example("ingot mahjong dataset generate --games 2000 -o games",
                 "2000 games of the rule-based player");
  making.run([o] { return generate_games(*o); });

  Command counting =
      command.subcommand("stats", "Games, rounds, decisions by kind of action, and logs that are refused");
  add_reading(counting, *o);
  counting.example("ingot mahjong dataset stats games", "what there is to learn from");
  counting.run([o] { return dataset_stats(*o); });

  Command showing =
      command.subcommand("sample", "Decisions with their labels, in the order that training takes them");
  add_reading(showing, *o);
  showing.option("--count", o->count, "How many");
  showing.option("--seed", o->seed, "Seed of the order");
  showing.example("ingot mahjong dataset sample games --count 3", "three decisions and their labels");
  showing.run([o] { return dataset_samples(*o); });
}

}  // namespace ingot::cli
