#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/plural.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/base/report.h"
#include "ingot/base/stopwatch.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/mahjong_games.h"
#include "ingot/cli/text_table.h"
#include "ingot/core/device_config.h"
#include "ingot/mahjong/ladder.h"
#include "ingot/rl/network_directory.h"
#include "ingot/train/run_metadata.h"

namespace ingot::cli {
namespace {

using namespace ingot::mahjong;
using Json = nlohmann::ordered_json;

struct LadderCommand : MahjongOptions {
  std::string directory, device = "cpu";
  double temperature = 0;
};

struct LadderRun {
  std::vector<LadderEntry> entries;
  std::vector<FoundNetworks::LeftOut> left_out;
  std::int64_t walls = 0;
  double seconds = 0;
};

constexpr std::int64_t kMostWalls = 10'000'000;
constexpr std::size_t kCurves = 12;  // more cannot be told apart

LadderRun climb(const LadderCommand& o, bool quiet) {
  FoundNetworks found =
      networks_under(o.directory, fmt::format(",temperature={},device={}", o.temperature, o.device));
  if (found.players.empty()) {
    const std::string first =
        found.left_out.empty() ? std::string("nothing in it has a config.json") : found.left_out[0].error;
    throw IoError(o.directory, "holds no network that can play mahjong: " + first);
  }
  const std::vector<std::string> built_in =
      o.players.empty() ? std::vector<std::string>{"rule-based", "simple", "tsumogiri"} : o.players;
  for (const std::string& name : built_in)
    found.players.push_back({.name = name, .make = player_named(name)});
  LadderOptions options;
  options.rules = rules_of(o);
  options.seed = o.bank.empty() ? o.seed : wall_bank(o.bank).seed;
  options.walls = static_cast<int>(o.walls);
  ProgressBar bar({.label = "walls",
                   .total = o.walls,
                   .mode = quiet ? ProgressOptions::Mode::quiet : ProgressOptions::Mode::automatic});
  options.played = [&](std::int64_t walls) { bar.update(walls); };
  const Stopwatch watch;
  LadderRun run{.entries = run_ladder(found.players, options), .left_out = std::move(found.left_out)};
  bar.finish();
  run.walls = o.walls;
  run.seconds = watch.seconds();
  return run;
}

ReportTable ladder_table(const std::vector<LadderEntry>& entries) {
  ReportTable table{
      .title = "Ladder",
      .columns = {"player", "mu - 3 sigma", "mu", "sigma", "games", "place", "1st 2nd 3rd 4th %"},
      .rows = {},
      .best = {0}};
  for (const LadderEntry& e : entries)
    table.rows.push_back({e.name, fmt::format("{:.2f}", e.rating.ordinal()),
                          fmt::format("{:.2f}", e.rating.mu), fmt::format("{:.2f}", e.rating.sigma),
                          std::to_string(e.games),
                          fmt::format("{:.3f} ±{:.3f}", e.place.mean, e.place.half_width),
                          fmt::format("{:.1f} {:.1f} {:.1f} {:.1f}", 100 * e.places[0], 100 * e.places[1],
                                      100 * e.places[2], 100 * e.places[3])});
  return table;
}

ReportChart rating_curves(const std::vector<LadderEntry>& entries) {
  ReportChart chart{.title = entries.size() > kCurves ? fmt::format("The best {}, over the walls", kCurves)
                                                      : std::string("Ratings over the walls"),
                    .x_label = "walls played",
                    .y_label = "mu",
                    .whole_x = true};
  for (const LadderEntry& e : std::span(entries).first(std::min(kCurves, entries.size()))) {
    ReportSeries series{.name = e.name};
    for (std::size_t i = 0; i < e.walls.size(); ++i) {
      series.x.push_back(static_cast<double>(e.walls[i]));
      series.y.push_back(e.history[i].mu);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

ReportChart rating_ranges(const std::vector<LadderEntry>& entries) {
  ReportChart chart{.title = "Ratings at the end", .x_label = "player", .y_label = "rating"};
  ReportSeries low{.name = "mu ± 3 sigma", .band = true}, high{.name = "mu + 3 sigma"},
      middle{.name = "mu", .points = true};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Rating& rating = entries[i].rating;
    chart.x_categories.push_back(entries[i].name);
    for (ReportSeries* series : {&low, &high, &middle}) series->x.push_back(static_cast<double>(i));
    low.y.push_back(rating.ordinal());
    high.y.push_back(rating.mu + 3 * rating.sigma);
    middle.y.push_back(rating.mu);
  }
  chart.series = {std::move(low), std::move(high), std::move(middle)};
  return chart;
}

Report ladder_report(const LadderCommand& o, const LadderRun& run, const RunMetadata& metadata) {
  const LadderEntry& best = run.entries.front();
  Report report{.title = "Ladder of mahjong players", .subtitle = o.directory};
  report.figures = {{"First", best.name, fmt::format("mean place {:.3f}", best.place.mean)},
                    {"Rating", fmt::format("{:.2f}", best.rating.ordinal()), "mu - 3 sigma"},
                    {"Players", std::to_string(run.entries.size()),
                     run.left_out.empty() ? "" : fmt::format("{} left out", run.left_out.size())},
                    {"Games", std::to_string(4 * run.walls), counted(run.walls, "wall")}};
  report.charts = {rating_curves(run.entries), rating_ranges(run.entries)};
  report.tables = {ladder_table(run.entries)};
  if (!run.left_out.empty()) {
    ReportTable table{.title = "Left out", .columns = {"directory", "reason"}, .rows = {}};
    for (const auto& one : run.left_out) table.rows.push_back({one.directory, one.error});
    report.tables.push_back(std::move(table));
  }
  const RatingModel model;
  report.config_title = "Games and model";
  report.config = {{"rules", o.rules},
                   {"length", o.length},
                   {"walls", o.bank.empty() ? fmt::format("seed {}", o.seed) : "bank " + o.bank},
                   {"temperature", fmt::format("{}", o.temperature)},
                   {"beta", fmt::format("{:.4g}", model.beta)},
                   {"tau", fmt::format("{:.4g}", model.tau)}};
  report.environment = metadata.rows();
  return report;
}

Json ladder_json(const LadderCommand& o, const LadderRun& run) {
  Json players = Json::array(), left_out = Json::array();
  for (const LadderEntry& e : run.entries)
    players.push_back({{"name", e.name},
                       {"ordinal", e.rating.ordinal()},
                       {"mu", e.rating.mu},
                       {"sigma", e.rating.sigma},
                       {"games", e.games},
                       {"places", e.places},
                       {"place", {{"mean", e.place.mean}, {"half_width_95", e.place.half_width}}}});
  for (const auto& one : run.left_out)
    left_out.push_back({{"directory", one.directory}, {"error", one.error}});
  return {{"walls", run.walls},
          {"games", 4 * run.walls},
          {"seconds", run.seconds},
          {"players", std::move(players)},
          {"left_out", std::move(left_out)},
          {"report", o.out}};
}

int ladder(const LadderCommand& o) {
  check_ending("--out", o.out, {".html", ".htm"});
  if (o.walls < 1 || o.walls > kMostWalls)
    throw InvalidConfig("walls", fmt::format("is {}, expected 1 to {}", o.walls, kMostWalls));
  if (!o.bank.empty() && o.walls > wall_bank(o.bank).walls)
    throw InvalidConfig("walls", fmt::format("is {}, but the bank has {}", o.walls, wall_bank(o.bank).walls));
  if (!std::isfinite(o.temperature) || o.temperature < 0)
    throw InvalidConfig("temperature", fmt::format("is {}, expected a number from 0", o.temperature));
  const bool page_only = is_standard_output(o.out);
  RunMetadata metadata;
  metadata.describe_process(choose_device(o.device));
  const LadderRun run = climb(o, o.json || page_only);
  write_report(o.out, ladder_report(o, run, metadata));
  if (page_only) return 0;
  if (o.json) return fmt::print("{}\n", printable_json(dump_json(ladder_json(o, run)))), 0;
  print_text_table(ladder_table(run.entries));
  for (const auto& one : run.left_out)
    fmt::print("left out: {}: {}\n", printable(one.directory), printable(one.error));
  fmt::print("{} in {:.1f} s\n  report  {}\n", counted(4 * run.walls, "game"), run.seconds, printable(o.out));
  return 0;
}

}  // namespace

void add_mahjong_ladder(Command& mahjong) {
  auto o = std::make_shared<LadderCommand>();
  o->out = "ladder.html";
  Command command = mahjong.subcommand(
      "ladder", "Rate all networks of a directory, and built-in players, by games among them (OpenSkill)");
  command.option("directory", o->directory, "Searched through for networks that train has left").required();
  command.option("--player", o->players,
                 "A built-in player that takes part (may be repeated): rule-based, simple and tsumogiri "
                 "unless named");
  command.option("--walls", o->walls, "Walls; each is played four times by four of the players");
  command.option("--temperature", o->temperature, "Of the networks; 0: the most probable action");
  add_device_option(command, o->device);
  command.option("--rules", o->rules, "Rules").one_of(rule_presets());
  command.option("--length", o->length, "Both winds, East alone, or a single round").one_of(game_lengths());
  command.option("--seed", o->seed, "Seed of the walls and players");
  command.option("--bank", o->bank, "In place of --seed: the fixed walls set aside for measuring")
      .one_of({"evaluation", "ablation"});
  command.option("-o,--out", o->out, "The page with table and curves, .html");
  command.flag("--json", o->json, "Print JSON");
  command.example("ingot mahjong ladder league --walls 500", "2000 games of all networks below league/");
  command.run([o] { return ladder(*o); });
}

}  // namespace ingot::cli
