#include "ingot/hub/snapshot_files.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/hub/hub_cache.h"

namespace ingot::hub {
namespace {

namespace fs = std::filesystem;

using Names = std::set<std::string>;

struct Files {
  Names whole, broken;  // broken: links to nothing
};

// Of a directory and those in it, as they are called from there.
Files files_below(const fs::path& directory) {
  Files files;
  std::error_code code;
  fs::recursive_directory_iterator at(directory, code), end;
  for (; !code && at != end; at.increment(code)) {
    std::error_code ignored;
    std::string name = at->path().lexically_relative(directory).string();
    if (at->is_symlink(ignored) && !fs::exists(at->path(), ignored)) {
      files.broken.insert(std::move(name));
    } else if (at->is_regular_file(ignored)) {
      files.whole.insert(std::move(name));
    }
  }
  return files;
}

bool ends_with_any(std::string_view name, std::span<const std::string_view> ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

// Kinds of weights, in the order in which they are opened.
constexpr std::string_view kSafetensors[] = {".safetensors"}, kTorch[] = {".bin", ".pt", ".pth"},
                           kGguf[] = {".gguf"};
constexpr std::span<const std::string_view> kKinds[] = {kSafetensors, kTorch, kGguf};

// Not what a training leaves beside a model.
bool is_weights(std::string_view name) {
  constexpr std::string_view kStates[] = {"training_args.bin", "optimizer.pt", "optimizer.bin",
                                          "scheduler.pt", "rng_state.pth"};
  return !ends_with_any(name, kStates) &&
         std::ranges::any_of(kKinds, [&](auto kind) { return ends_with_any(name, kind); });
}

bool lies_at_root(const std::string& name) { return name.find('/') == std::string::npos; }

// Those of the root alone, or all.
Names weights_in(const Names& names, bool root) {
  Names weights;
  for (const std::string& name : names)
    if (is_weights(name) && (!root || lies_at_root(name))) weights.insert(name);
  return weights;
}

// What is read beside weights.
std::optional<std::string> broken_companion(const Names& broken) {
  constexpr std::string_view kEnds[] = {".json", ".txt", ".model", ".jinja", ".tiktoken"};
  for (const std::string& name : broken)
    if (lies_at_root(name) && ends_with_any(name, kEnds) && !name.ends_with(".index.json")) return name;
  return std::nullopt;
}

// The shards that "model.safetensors.index.json" names.
Names shards_of(const fs::path& directory, const std::string& index) {
  const auto json = parse_json_or_discard<nlohmann::json>(read_file((directory / index).string()));
  Names shards;
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) return shards;
  for (const auto& [tensor, shard] : json["weight_map"].items())
    if (shard.is_string() && is_safe_relative_path(shard.get<std::string>()))
      shards.insert((fs::path(index).parent_path() / shard.get<std::string>()).string());
  return shards;
}

// "model.safetensors.index.json", of this kind.
bool is_index_of(std::string_view name, std::span<const std::string_view> kind) {
  constexpr std::string_view kEnd = ".index.json";
  return name.ends_with(kEnd) && ends_with_any(name.substr(0, name.size() - kEnd.size()), kind);
}

// Of a set of shards of this kind of which some are there. Where none is, nobody may have wanted weights.
std::optional<std::string> missing_shard(const fs::path& directory, const Names& names,
                                         std::span<const std::string_view> kind) {
  for (const std::string& name : names) {
    if (!name.ends_with(".index.json")) continue;
    const Names shards = shards_of(directory, name);
    const auto there = [&](const std::string& shard) { return names.contains(shard); };
    const auto absent =
        std::ranges::find_if(shards, [&](const auto& s) { return ends_with_any(s, kind) && !there(s); });
    if (absent != shards.end() && std::ranges::any_of(shards, there)) return *absent;
  }
  return std::nullopt;
}

// "m-00001-of-00003.gguf" stands beside two others.
std::optional<std::string> missing_part(const Names& names) {
  constexpr std::string_view kForm = "-00001-of-00003.gguf";
  for (const std::string& name : names) {
    if (!name.ends_with(".gguf") || name.size() <= kForm.size()) continue;
    const std::string stem = name.substr(0, name.size() - kForm.size());
    const std::string_view end = std::string_view(name).substr(stem.size());
    std::int64_t count = 0;
    const bool split = end[0] == '-' && end.substr(6, 4) == "-of-" &&
                       std::from_chars(end.data() + 10, end.data() + 15, count).ptr == end.data() + 15;
    for (std::int64_t i = 1; split && i <= count; ++i) {
      std::string part = fmt::format("{}-{:05}-of-{:05}.gguf", stem, i, count);
      if (!names.contains(part)) return part;
    }
  }
  return std::nullopt;
}

// Weights of another kind than the one that is opened may lack what they like.
std::optional<std::string> missing_weights(const std::string& snapshot, const Files& files) {
  Names all = weights_in(files.whole, false);
  all.merge(weights_in(files.broken, false));
  const bool root = std::ranges::any_of(all, lies_at_root);
  const Names whole = weights_in(files.whole, root), broken = weights_in(files.broken, root);
  for (const auto kind : kKinds) {
    if (std::ranges::none_of(whole, [&](const auto& name) { return ends_with_any(name, kind); })) continue;
    if (kind.data() == kGguf) return missing_part(whole);
    const auto index =
        std::ranges::find_if(files.broken, [&](const auto& name) { return is_index_of(name, kind); });
    if (index != files.broken.end()) return *index;
    return missing_shard(snapshot, files.whole, kind);
  }
  if (broken.empty()) return std::nullopt;
  return *broken.begin();
}

}  // namespace

std::optional<std::string> missing_file(const std::string& snapshot, const std::vector<std::string>& listed) {
  const Files files = files_below(snapshot);
  for (const std::string& file : listed)
    if (!files.whole.contains(file)) return file;
  if (auto companion = broken_companion(files.broken)) return companion;
  return missing_weights(snapshot, files);
}

}  // namespace ingot::hub
