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

constexpr const char* kIndexFormat = "ingot.mahjong_index.1";

Json to_json(const IndexedGame& game) {
  return {{"path", game.path},           {"bytes", game.bytes},   {"modified", game.modified},
          {"sha256", game.sha256},       {"rounds", game.rounds}, {"over", game.over},
          {"decisions", game.decisions}, {"error", game.error}};
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
    if (!json.is_object()) continue;
    IndexedGame game{.path = json.value("path", ""),
                     .bytes = json.value("bytes", std::uint64_t{0}),
                     .modified = json.value("modified", std::int64_t{0}),
                     .sha256 = json.value("sha256", ""),
                     .decisions = json.value("decisions", std::int64_t{0}),
                     .rounds = json.value("rounds", 0),
                     .over = json.value("over", false),
                     .error = json.value("error", "")};
    std::string key = game.path;
    cache.emplace(std::move(key), std::move(game));
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

void replay_once(IndexedGame& game, const Rules& otherwise) {
  try {
    game.sha256 = sha256_file(game.path);
    const LabelledGame labelled = label_game(read_log(game.path, otherwise));
    game.decisions = static_cast<std::int64_t>(labelled.decisions.size());
    game.rounds = labelled.rounds;
    game.over = labelled.over;
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

std::int64_t GameIndex::decisions() const {
  std::int64_t sum = 0;
  for (const IndexedGame& game : games_) sum += game.decisions;
  return sum;
}

std::string GameIndex::digest() const {
  Sha256 hash;
  for (const IndexedGame& game : games_) hash.update(game.sha256);
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
