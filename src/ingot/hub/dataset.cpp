#include "ingot/hub/dataset.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include "ingot/base/config.h"
#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"
#include "ingot/base/log.h"
#include "ingot/base/suggest.h"
#include "ingot/hub/hub_client.h"
#include "ingot/hub/pull.h"

namespace ingot::hub {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

constexpr const char* kReadme = "README.md";
constexpr const char* kConversion = "refs/convert/parquet";  // where the Hub puts its own

// ".parquet" of "data/train-00000.parquet"; ".jsonl" of "a.jsonl.gz".
std::string kind_of(const std::string& path) {
  std::string name = fs::path(path).filename().string();
  for (const char* packed : {".gz", ".zst"})
    if (name.ends_with(packed)) name.resize(name.rfind('.'));
  return fs::path(name).extension().string();
}

bool holds_data(const std::string& path) {
  static const std::set<std::string> kinds{".parquet", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".txt"};
  static const std::set<std::string> others{"dataset_infos.json", "dataset_info.json", "state.json",
                                            "dataset_dict.json", "requirements.txt"};
  const std::string name = fs::path(path).filename().string();
  return kinds.contains(kind_of(path)) && !others.contains(name) && name[0] != '.' && path[0] != '.';
}

// Files of the commonest kind: a table beside its description in another one is not two tables.
Strings of_one_kind(const Strings& paths) {
  std::map<std::string, std::ptrdiff_t> counts;
  for (const std::string& path : paths) ++counts[kind_of(path)];
  Strings kept;
  if (counts.empty()) return kept;
  const std::string kind =
      std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; })->first;
  std::ranges::copy_if(paths, std::back_inserter(kept),
                       [&](const auto& path) { return kind_of(path) == kind; });
  return kept;
}

// A pattern of `datasets`: '*' ends at '/', "**" does not; a directory stands for all below it.
bool matches(const std::string& path, std::string pattern) {
  if (pattern.starts_with("./")) pattern.erase(0, 2);
  if (pattern.find("**") != pattern.npos) {
    const bool here =
        pattern.starts_with("**/") && fnmatch(pattern.c_str() + 3, path.c_str(), FNM_PATHNAME) == 0;
    return here || fnmatch(pattern.c_str(), path.c_str(), 0) == 0;
  }
  return fnmatch(pattern.c_str(), path.c_str(), FNM_PATHNAME) == 0 || path.starts_with(pattern + "/");
}

Strings matching(const Strings& paths, const Strings& patterns) {
  Strings found;
  std::ranges::copy_if(paths, std::back_inserter(found), [&](const std::string& path) {
    return std::ranges::any_of(patterns, [&](const std::string& p) { return matches(path, p); });
  });
  return found;
}

// The metadata in front of a README, between lines of "---".
std::string_view front_matter(std::string_view readme) {
  if (!readme.starts_with("---")) return {};
  const std::size_t begin = readme.find('\n');
  if (begin == readme.npos) return {};
  const std::size_t end = readme.find("\n---", begin);
  return end == readme.npos ? std::string_view() : readme.substr(begin + 1, end - begin);
}

// Splits and the files of each.
using Splits = std::map<std::string, Strings>;

// `data_files` of one table: a pattern, patterns, or a list of {split, path}.
Splits splits_of(const ConfigReader& table) {
  Splits splits;
  if (!table.has("data_files")) {
    const std::string directory = table.get("data_dir", "");
    if (!directory.empty()) splits[""] = {directory + "/**"};
    return splits;
  }
  try {
    for (const ConfigReader& entry : table.sections("data_files"))
      for (const std::string& path : entry.get("path", Strings{}))
        splits[entry.get("split", "train")].push_back(path);
  } catch (const InvalidConfig&) {
    splits["train"] = table.get("data_files", Strings{});
  }
  return splits;
}

std::string listed(const Strings& words) { return fmt::format("{}", fmt::join(words, ", ")); }

[[noreturn]] void refuse_split(const DatasetRequest& request, const std::string& split,
                               const Strings& known) {
  throw InvalidConfig("split", fmt::format("{} has no '{}'{}; it has {}", request.name, split,
                                           did_you_mean(split, known), listed(known)));
}

// The table that is asked for, out of a README's; nothing where it tells of none.
std::optional<Splits> table_of(std::string_view readme, const DatasetRequest& request) {
  const std::string_view metadata = front_matter(readme);
  if (metadata.empty()) return std::nullopt;
  Strings names;
  std::optional<Splits> chosen;
  try {
    const Config parsed = Config::parse(std::string(metadata), request.name + "/" + kReadme);
    const auto tables = parsed.root().sections("configs");
    for (const ConfigReader& table : tables) {
      names.push_back(table.get("config_name", "default"));
      const bool usual = table.get("default", false) || names.back() == "default" || tables.size() == 1;
      if (request.config.empty() ? usual : names.back() == request.config) chosen = splits_of(table);
    }
  } catch (const Error& error) {
    log(LogLevel::warn, "ingot::hub", fmt::format("names of files tell the splits, for {}", error.what()));
    return std::nullopt;
  }
  if (names.empty() || chosen) return chosen;
  const std::string has = fmt::format("{} holds {}", request.name, listed(names));
  if (request.config.empty()) throw InvalidConfig("name", fmt::format("is missing: {}; choose one", has));
  throw InvalidConfig("name", fmt::format("'{}' is not known{}: {}", request.config,
                                          did_you_mean(request.config, names), has));
}

// "train_sft" of "data/train_sft-00000-of-00003.parquet".
std::string sharded_split(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const std::size_t of = name.find("-of-");
  if (of == name.npos || of < 7 || name.find_first_not_of("0123456789", of - 5) != of) return {};
  return name[of - 6] == '-' ? name.substr(0, of - 6) : "";
}

// The split whose word stands alone in a text, between other letters than those of a word.
std::string split_in(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kWords{
      {{"train", "train"},
       {"training", "train"},
       {"validation", "validation"},
       {"valid", "validation"},
       {"dev", "validation"},
       {"val", "validation"},
       {"test", "test"},
       {"testing", "test"},
       {"eval", "test"},
       {"evaluation", "test"}}};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of("-._ 0123456789/", at), text.size());
    for (const auto& [word, split] : kWords)
      if (text.substr(at, end - at) == word) return std::string(split);
    at = end + 1;
  }
  return {};
}

// The splits that names of files tell: of shards, else by a word in a directory, else in the file's name.
Splits splits_by_name(const Strings& paths) {
  const auto directory = [](const std::string& path) {
    return split_in(fs::path(path).parent_path().string());
  };
  const auto file = [](const std::string& path) { return split_in(fs::path(path).filename().string()); };
  for (const auto& way :
       std::initializer_list<std::string (*)(const std::string&)>{sharded_split, directory, file}) {
    Splits splits;
    for (const std::string& path : paths)
      if (const std::string split = way(path); !split.empty()) splits[split].push_back(path);
    if (!splits.empty()) return splits;
  }
  return {{"train", paths}};
}

// Of the Hub's conversion, and of repositories with a directory for each table.
Strings of_directory(const Strings& paths, const DatasetRequest& request) {
  const auto first = [](const std::string& path) { return path.substr(0, path.find('/')); };
  Strings tables;
  for (const std::string& path : paths)
    if (std::ranges::find(tables, first(path)) == tables.end()) tables.push_back(first(path));
  std::string wanted = request.config;
  if (wanted.empty() && std::ranges::find(tables, "default") != tables.end()) wanted = "default";
  if (wanted.empty() && tables.size() == 1) wanted = tables[0];
  if (wanted.empty())
    throw InvalidConfig("name",
                        fmt::format("is missing: {} holds {}; choose one", request.name, listed(tables)));
  Strings found = matching(paths, {wanted});
  if (found.empty())
    throw InvalidConfig("name", fmt::format("'{}' is not known{}: {} holds {}", wanted,
                                            did_you_mean(wanted, tables), request.name, listed(tables)));
  return found;
}

// Directories whose files have the same names are tables beside each other: main/train-*, socratic/train-*.
void check_one_table(const Strings& data, const DatasetRequest& request) {
  std::map<std::string, Strings> directories;
  for (const std::string& path : data)
    directories[fs::path(path).filename().string()].push_back(fs::path(path).parent_path().string());
  for (const auto& [name, places] : directories) {
    const bool splits =
        std::ranges::any_of(places, [](const std::string& place) { return !split_in(place).empty(); });
    if (places.size() > 1 && !splits && name.find("-of-") != name.npos)
      throw InvalidConfig("name",
                          fmt::format("is missing: {} holds {}; choose one", request.name, listed(places)));
  }
}

std::string wanted_split(const DatasetRequest& request) {
  return request.split.empty() ? "train" : request.split;
}

Strings files_of(const Splits& splits, const DatasetRequest& request) {
  const std::string split = wanted_split(request);
  const auto found = splits.find(split);
  if (found != splits.end()) return found->second;
  Strings known;
  for (const auto& [name, files] : splits) known.push_back(name);
  refuse_split(request, split, known);
}

HubRepo repo_of(const DatasetRequest& request) {
  std::string name = request.name;
  const std::string page = HubOptions::from_environment().endpoint + "/datasets/";
  if (name.starts_with(page)) name = name.substr(page.size());
  if (name.starts_with("hf://datasets/")) name = name.substr(14);
  HubRepo repo = parse_hub_repo(name);
  repo.dataset = true;
  if (!request.revision.empty()) repo.revision = request.revision;
  INGOT_CHECK(is_safe_relative_path(repo.revision),
              InvalidConfig("revision", "is not a branch, tag or commit: '" + repo.revision + "'"));
  return repo;
}

bool may_fetch(const DatasetRequest& request) {
  return request.name.starts_with("hf://") || request.name.starts_with("http");
}

Strings below(const std::string& directory, const Strings& files) {
  Strings paths;
  for (const std::string& file : files) paths.push_back(directory + "/" + file);
  return paths;
}

DatasetRequest with_file(const DatasetRequest& request, const HubRepo& repo) {
  DatasetRequest exact = request;
  if (!repo.file.empty()) exact.data_files = {repo.file};
  return exact;
}

// Every character of a path as itself in a shell pattern.
std::string as_pattern(const std::string& path) {
  std::string pattern;
  for (const char c : path) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// The names of all files of a commit, kept beside Ingot's own cache: a snapshot holds those that were wanted
// before, and maybe only the first ones of these.
std::string listing_file(const HubRepo& repo, const std::string& commit) {
  return fmt::format("{}/listings/{}/{}", cache_directory(), sha256_hex(repo.id).substr(0, 16), commit);
}

void keep_listing(const HubRepo& repo, const std::string& commit, const Strings& paths) {
  const std::string file = listing_file(repo, commit);
  make_directories(fs::path(file).parent_path().string());
  write_file_atomically(file, fmt::format("{}\n", fmt::join(paths, "\n")));
}

// Where other programs fetched the data set, what is there has to be all of it.
std::optional<Strings> kept_listing(const HubRepo& repo, const std::string& commit) {
  const std::string file = listing_file(repo, commit);
  std::error_code missing;
  if (!fs::is_regular_file(file, missing)) return std::nullopt;
  Strings paths;
  const std::string text = read_file(file);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    paths.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return paths;
}

PullResult pull_files(HubClient& client, HubRepo repo, const Strings& files) {
  PullOptions options;
  for (const std::string& file : files) options.include.push_back(as_pattern(file));
  repo.file.clear();
  return pull(client, repo, options);
}

Strings paths_of(const HubListing& listing) {
  Strings paths;
  for (const HubFile& file : listing.files) paths.push_back(file.path);
  return paths;
}

// Without the cache, where it would stand for the data set before these are there.
std::string readme_of(HubClient& client, const HubRepo& repo, const std::string& commit) {
  const HttpRequest request = client.file_request(repo, commit, kReadme);
  const HttpResponse response = client.http().request(request);
  return response.status == 200 ? response.body : "";
}

Strings fetched(HubClient& client, HubRepo repo, HubListing listing, const DatasetRequest& request) {
  Strings paths = paths_of(listing);
  const bool described = std::ranges::find(paths, kReadme) != paths.end();
  const std::string readme = described ? readme_of(client, repo, listing.commit) : "";
  Strings files = select_dataset_files(paths, readme, with_file(request, repo));
  Strings wanted = files;
  if (described) wanted.emplace_back(kReadme);
  if (files.empty() && repo.revision == "main") {  // the data are elsewhere, and its code would fetch them
    repo.revision = kConversion;
    listing = client.list(repo);
    paths = paths_of(listing);
    files = wanted = files_of(splits_by_name(of_directory(paths, request)), request);
  }
  INGOT_CHECK(!files.empty(), IoError(request.name, "holds no JSON, CSV, Parquet or text"));
  keep_listing(repo, listing.commit, paths);
  return below(pull_files(client, repo, wanted).path, files);
}

bool all_there(const std::string& directory, const Strings& files) {
  return std::ranges::all_of(files,
                             [&](const std::string& file) { return fs::exists(directory + "/" + file); });
}

Strings files_below(const std::string& directory) {
  Strings paths;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (!entry.is_directory()) paths.push_back(entry.path().lexically_relative(directory).string());
  std::ranges::sort(paths);
  return paths;
}

// What earlier calls fetched, if that is all that is asked for now.
std::optional<Strings> cached(const HubCache& cache, HubRepo repo, const DatasetRequest& request) {
  Strings revisions{repo.revision};
  if (repo.revision == "main") revisions.emplace_back(kConversion);
  const DatasetRequest exact = with_file(request, repo);
  repo.file.clear();
  for (const std::string& revision : revisions) {
    repo.revision = revision;
    const auto directory = cache.find(repo), commit = cache.commit_of(repo);
    if (!directory || !commit) continue;
    const Strings paths = kept_listing(repo, *commit).value_or(files_below(*directory));
    const std::string readme = *directory + "/" + kReadme;
    Strings files = select_dataset_files(paths, fs::exists(readme) ? read_file(readme) : "", exact);
    if (files.empty() && revision == kConversion)
      files = files_of(splits_by_name(of_directory(paths, request)), request);
    if (!files.empty() && all_there(*directory, files)) return below(*directory, files);
  }
  return std::nullopt;
}

}  // namespace

bool is_hub_dataset(const std::string& name) {
  std::error_code missing;
  if (fs::exists(name, missing)) return false;
  return name.starts_with("hf://datasets/") || (looks_like_hub_repo(name) && !holds_data(name)) ||
         name.starts_with(HubOptions::from_environment().endpoint + "/datasets/");
}

Strings select_dataset_files(const Strings& paths, std::string_view readme, const DatasetRequest& request) {
  if (!request.data_files.empty()) {
    Strings files = matching(paths, request.data_files);
    INGOT_CHECK(!files.empty(),
                InvalidConfig("data_files", fmt::format("{} has no {}; it holds {}", request.name,
                                                        listed(request.data_files), listed(paths))));
    return files;
  }
  Strings data;
  std::ranges::copy_if(paths, std::back_inserter(data), holds_data);
  if (const auto table = table_of(readme, request); table && !table->empty()) {
    if (const auto all = table->find(""); all != table->end())  // a directory of its own
      return files_of(splits_by_name(of_one_kind(matching(data, all->second))), request);
    return matching(paths, files_of(*table, request));
  }
  if (!request.config.empty() && !data.empty()) data = of_directory(data, request);
  data = of_one_kind(data);
  if (request.config.empty()) check_one_table(data, request);
  return data.empty() ? data : files_of(splits_by_name(data), request);
}

Strings resolve_dataset(const DatasetRequest& request) {
  const HubRepo repo = repo_of(request);
  HubClient client(HubOptions::from_environment());
  const HubCache cache(client.options().cache_directory);
  if (may_fetch(request) && !client.options().offline) {
    std::optional<HubListing> listing;
    try {
      listing = client.list(repo);
    } catch (const HttpError& error) {
      // Without the network, what is there will do.
      const auto found = error.status == 0 ? cached(cache, repo, request) : std::nullopt;
      if (!found) throw;
      log(LogLevel::warn, "ingot::hub", fmt::format("{}; using what was fetched before", error.what()));
      return *found;
    }
    return fetched(client, repo, *std::move(listing), request);
  }
  if (const auto found = cached(cache, repo, request)) return *found;
  INGOT_CHECK(!may_fetch(request),
              IoError(repo.id, fmt::format("is not in {} at revision '{}', and HF_HUB_OFFLINE forbids to "
                                           "fetch it",
                                           cache.directory(), repo.revision)));
  throw IoError(request.name,
                fmt::format("no such file or directory, and the Hub's cache ({}) does not hold all of a data "
                            "set of this name; to fetch it from the Hub, write hf://datasets/{}",
                            cache.directory(), request.name));
}

}  // namespace ingot::hub
