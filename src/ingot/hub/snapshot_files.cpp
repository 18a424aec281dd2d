#include "ingot/hub/snapshot_files.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <set>
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

// Of a directory and those in it, as they are called from there; links to nothing are told by `broken`.
Names files_below(const fs::path& directory, std::optional<std::string>& broken) {
  Names names;
  std::error_code code;
  fs::recursive_directory_iterator at(directory, code), end;
  for (; !code && at != end; at.increment(code)) {
    std::error_code ignored;
    std::string name = at->path().lexically_relative(directory).string();
    if (at->is_symlink(ignored) && !fs::exists(at->path(), ignored)) {
      if (!broken.has_value()) broken = name;
    } else if (at->is_regular_file(ignored)) {
      names.insert(std::move(name));
    }
  }
  return names;
}

bool is_weights(const std::string& name) {
  return name.ends_with(".safetensors") || name.ends_with(".bin") || name.ends_with(".gguf") ||
         name.ends_with(".pt") || name.ends_with(".pth");
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

// An index of which nothing is there is that of another format, where there are other weights.
std::optional<std::string> missing_shard(const fs::path& directory, const Names& names) {
  const bool has_weights = std::ranges::any_of(names, is_weights);
  for (const std::string& name : names) {
    if (!name.ends_with(".index.json")) continue;
    const Names shards = shards_of(directory, name);
    const auto absent = std::ranges::find_if(shards, [&](const auto& s) { return !names.contains(s); });
    const bool some = std::ranges::any_of(shards, [&](const auto& s) { return names.contains(s); });
    if (absent != shards.end() && (some || !has_weights)) return *absent;
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

}  // namespace

std::optional<std::string> missing_file(const std::string& snapshot, const std::vector<std::string>& listed) {
  std::optional<std::string> broken;
  const Names names = files_below(snapshot, broken);
  for (const std::string& file : listed)
    if (!names.contains(file)) return file;
  if (broken.has_value()) return broken;
  if (auto shard = missing_shard(snapshot, names)) return shard;
  return missing_part(names);
}

}  // namespace ingot::hub
