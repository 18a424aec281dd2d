#include "ingot/mahjong/game_index.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/mahjong/labels.h"

namespace ingot::mahjong {
namespace {

using Json = nlohmann::ordered_json;
using Cache = std::map<std::string, IndexedGame>;

constexpr const char* kIndexFormat = "ingot.mahjong_index.2";

Json to_json(const IndexedGame& game) {
  Json seats = Json::array();
  for (const IndexedSeat& seat : game.seats)
    seats.push_back({{"name", seat.name},
                     {"decisions", seat.decisions},
                     {"place", seat.place},
                     {"wins", seat.wins},
                     {"deal_ins", seat.deal_ins}});
  return {{"path", game.path},     {"bytes", game.bytes},   {"modified", game.modified},
          {"sha256", game.sha256}, {"rounds", game.rounds}, {"over", game.over},
          {"seats", seats},        {"error", game.error}};
}

IndexedGame game_from(const Json& json) {
  IndexedGame game{.path = json.value("path", ""),
                   .bytes = json.value("bytes", std::uint64_t{0}),
                   .modified = json.value("modified", std::int64_t{0}),
                   .sha256 = json.value("sha256", ""),
                   .seats = {},
                   .rounds = json.value("rounds", 0),
                   .over = json.value("over", false),
                   .error = json.value("error", "")};
  for (std::size_t p = 0; p < 4; ++p) {
    const Json& seat = json.at("seats").at(p);
    game.seats[p] = {.name = seat.value("name", ""),
                     .decisions = seat.value("decisions", std::int64_t{0}),
                     .place = seat.value("place", 0),
                     .wins = seat.value("wins", 0),
                     .deal_ins = seat.value("deal_ins", 0)};
  }
  return game;
}

// A cache that is damaged or of another version only costs the time to make it again.
Cache read_cache(const std::string& path) {
  Cache cache;
  if (path.empty() || !std::filesystem::exists(path)) return cache;
  std::istringstream lines(read_file(path));
  std::string line;
  std::getline(lines, line);
  if (line != kIndexFormat) return cache;
  while (std::getline(lines, line)) {
    const Json json = parse_json_or_discard<Json>(line);
    const auto seats = json.is_object() ? json.find("seats") : json.end();
    if (!json.is_object() || seats == json.end() || !seats->is_array() || seats->size() != 4) continue;
    try {
      IndexedGame game = game_from(json);
      std::string key = game.path;
      cache.emplace(std::move(key), std::move(game));
    } catch (const Json::exception&) {  // a field of another type
      continue;
    }
  }
  return cache;
}

void write_cache(const std::string& path, const std::vector<IndexedGame>& games) {
  std::string text = std::string(kIndexFormat) + "\n";
  for (const IndexedGame& game : games) text += dump_json(to_json(game)) + "\n";
  write_file_atomically(path, text);
}

IndexedGame look_at(const std::string& path) {
  IndexedGame game{.path = path};
  game.bytes = std::filesystem::file_size(path);
  const auto since = std::filesystem::last_write_time(path).time_since_epoch();
  game.modified = std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
  return game;
}

// Whoever deals in to several at once does so in one round.
void count_ends(const Events& events, IndexedGame& game) {
  unsigned dealt_in = 0;
  for (const Event& event : events) {
    if (event.type != EventType::Hora) continue;
    ++game.seats[event.actor].wins;
    if (event.target != event.actor) dealt_in |= 1U << event.target;
  }
  for (std::size_t p = 0; p < 4; ++p) game.seats[p].deal_ins += static_cast<int>(dealt_in >> p & 1);
}

void replay_once(IndexedGame& game, const Rules& otherwise) {
  try {
    game.sha256 = sha256_file(game.path);
    const GameLog log = read_log(game.path, otherwise);
    const LabelledGame labelled = label_game(log);
    game.rounds = labelled.rounds;
    game.over = labelled.over;
    const GameResult result = game_result(labelled.scores, log.rules);
    for (std::size_t p = 0; p < 4; ++p) {
      game.seats[p].name = log.names[p];
      game.seats[p].place = labelled.over ? result.place[p] : 0;
    }
    for (const LabelledDecision& decision : labelled.decisions)
      ++game.seats[decision.observation.seat].decisions;
    for (const LogRound& round : log.rounds) count_ends(round.events, game);
  } catch (const Error& error) {
    game.error = error.what();
  }
}

}  // namespace

std::vector<std::string> files_under(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    const bool standard_input = path == "-";
    INGOT_CHECK(standard_input || std::filesystem::exists(path), IoError(path, "does not exist"));
    if (standard_input || !std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

GameIndex GameIndex::build(const std::vector<std::string>& paths, const Rules& otherwise,
                           const std::string& cache) {
  const Cache known = read_cache(cache);
  std::vector<IndexedGame> all;
  for (const std::string& path : files_under(paths))
    if (path != cache) all.push_back(look_at(path));
  parallel_share(static_cast<std::int64_t>(all.size()), 1, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      IndexedGame& game = all[static_cast<std::size_t>(i)];
      const auto found = known.find(game.path);
      const bool same = found != known.end() && found->second.bytes == game.bytes &&
                        found->second.modified == game.modified;
      if (same)
        game = found->second;
      else
        replay_once(game, otherwise);
    }
  });
  if (!cache.empty()) write_cache(cache, all);
  GameIndex index;
  index.rules_ = otherwise;
  std::set<std::string> seen;
  for (IndexedGame& game : all) {
    if (!game.error.empty())
      index.refused_.push_back(std::move(game));
    else if (!seen.insert(game.sha256).second)
      ++index.duplicates_;
    else
      index.games_.push_back(std::move(game));
  }
  return index;
}

std::int64_t IndexedGame::decisions() const {
  std::int64_t sum = 0;
  for (const IndexedSeat& seat : seats) sum += seat.kept ? seat.decisions : 0;
  return sum;
}

std::int64_t GameIndex::decisions() const {
  std::int64_t sum = 0;
  for (const IndexedGame& game : games_) sum += game.decisions();
  return sum;
}

void GameIndex::keep_seats(const std::function<bool(const IndexedGame&, const IndexedSeat&)>& wanted) {
  for (IndexedGame& game : games_)
    for (IndexedSeat& seat : game.seats) seat.kept = seat.kept && wanted(game, seat);
  std::erase_if(games_,
                [](const IndexedGame& game) { return std::ranges::none_of(game.seats, &IndexedSeat::kept); });
}

std::string GameIndex::digest() const {
  Sha256 hash;
  for (const IndexedGame& game : games_) {
    hash.update(game.sha256);
    for (std::size_t p = 0; p < 4; ++p)
      if (!game.seats[p].kept) hash.update(fmt::format("-{}", p));
  }
  return hash.finish_hex().substr(0, 16);
}

GameIndex GameIndex::take_out(double share) {
  GameIndex out;
  out.rules_ = rules_;
  const auto stays = [&](const IndexedGame& game) {
    const auto first = std::stoul(game.sha256.substr(0, 8), nullptr, 16);
    return static_cast<double>(first) / 4294967296.0 >= share;
  };
  const auto rest = std::stable_partition(games_.begin(), games_.end(), stays);
  out.games_.assign(rest, games_.end());
  games_.erase(rest, games_.end());
  return out;
}

}  // namespace ingot::mahjong
