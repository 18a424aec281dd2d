#include "ingot/hub/cache_contents.h"

#include <algorithm>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/suggest.h"
#include "ingot/hub/url.h"

namespace ingot::hub {
namespace {

namespace fs = std::filesystem;

/// The entries of a directory; none where it cannot be read.
std::vector<fs::path> entries_of(const fs::path& directory) {
  std::vector<fs::path> paths;
  std::error_code code;
  for (fs::directory_iterator at(directory, code), end; !code && at != end; at.increment(code)) {
    paths.push_back(at->path());
  }
  return paths;
}

constexpr std::string_view kNote = ".source.json";  // where a file came from
constexpr const char* kComplete = ".complete";      // the same of a prefix

/// Adds a file's size and times, those of a link itself. Notes are read by a list, which does not count as
/// use of a model.
void count_file(const fs::path& path, CacheEntry& entry) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  entry.bytes += static_cast<std::uint64_t>(status.st_size);
  const std::string name = path.filename().string();
  if (name.ends_with(kNote) || name == kComplete) return;
  // A file system mounted with noatime leaves the time when the file was written.
  entry.last_used = std::max<std::int64_t>({entry.last_used, status.st_atime, status.st_mtime});
}

void count(CacheEntry& entry) {
  std::error_code code;
  if (!fs::is_directory(entry.path, code)) return count_file(entry.path, entry);
  fs::recursive_directory_iterator at(entry.path, code), end;
  for (; !code && at != end; at.increment(code)) count_file(at->path(), entry);
}

/// Whether another process holds the lock.
bool is_held(const fs::path& lock) {
  const int fd = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  const bool held = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
  ::close(fd);
  return held;
}

bool holds_a_lock_in(const fs::path& directory) {
  return std::ranges::any_of(entries_of(directory), [](const fs::path& file) {
    return file.extension() == ".lock" && is_held(file);
  });
}

/// "models--org--name" as "org/name".
std::string name_of_folder(std::string folder) {
  if (const std::size_t dashes = folder.find("--"); dashes != folder.npos) folder.replace(dashes, 2, "/");
  return folder;
}

void list_hub(const fs::path& directory, std::vector<CacheEntry>& entries) {
  for (const fs::path& path : entries_of(directory)) {
    const std::string folder = path.filename().string();
    for (const std::string_view kind : {"model", "dataset", "space"}) {
      const std::string prefix = std::string(kind) + "s--";
      if (!folder.starts_with(prefix)) continue;
      entries.push_back({.kind = std::string(kind),
                         .name = name_of_folder(folder.substr(prefix.size())),
                         .path = path.string(),
                         .in_use = holds_a_lock_in(directory / ".locks" / folder)});
    }
  }
}

/// The address that a directory below urls/ was fetched from; its own name where nothing tells.
std::string address_of(const fs::path& directory) {
  std::string address = directory.filename().string();
  for (const fs::path& file : entries_of(directory)) {
    const std::string name = file.filename().string();
    if (name == kComplete) return read_file(file.string());
    if (!name.ends_with(kNote)) continue;
    const auto note = parse_json_or_discard<nlohmann::json>(read_file(file.string()));
    if (note.is_object()) address = note.value("url", address);
  }
  return address;
}

void list_own(const fs::path& directory, std::vector<CacheEntry>& entries) {
  for (const fs::path& path : entries_of(directory / "urls")) {
    entries.push_back(
        {.kind = "url", .name = address_of(path), .path = path.string(), .in_use = holds_a_lock_in(path)});
  }
  for (const fs::path& path : entries_of(directory / "packed")) {
    if (path.extension() != ".ingot-packed") continue;
    entries.push_back({.kind = "packed", .name = path.filename().string(), .path = path.string()});
  }
  for (const fs::path& path :
       entries_of(directory / "demo")) {  // the model of ./dev chat, and its packed weights
    const char* kind = path.extension() == ".ingot-packed" ? "packed" : "model";
    entries.push_back({.kind = kind, .name = path.filename().string(), .path = path.string()});
  }
}

}  // namespace

std::vector<CacheEntry> list_cache(const std::string& hub_directory, const std::string& own_directory) {
  std::vector<CacheEntry> entries;
  if (!hub_directory.empty()) list_hub(hub_directory, entries);
  if (!own_directory.empty()) list_own(own_directory, entries);
  for (CacheEntry& entry : entries) count(entry);
  std::ranges::sort(entries, [](const CacheEntry& a, const CacheEntry& b) {
    return a.last_used != b.last_used ? a.last_used > b.last_used : a.name < b.name;
  });
  return entries;
}

std::vector<CacheEntry> find_entries(const std::vector<CacheEntry>& entries, std::string_view name) {
  std::string wanted(name.starts_with("hf://") ? name.substr(5) : name);
  if (is_http_url(wanted)) wanted = printable_url(wanted);
  std::vector<CacheEntry> found;
  std::vector<std::string> known;
  known.reserve(entries.size());
  for (const CacheEntry& entry : entries) {
    known.push_back(entry.name);
    if (entry.name == wanted) found.push_back(entry);
  }
  INGOT_CHECK(!found.empty(),
              InvalidConfig(std::string(name),
                            fmt::format("is not in the cache{}; `ingot cache list` shows what is, and a "
                                        "repository is removed with all its revisions",
                                        did_you_mean(wanted, known))));
  return found;
}

std::vector<CacheEntry> choose_to_prune(std::vector<CacheEntry> entries, std::uint64_t max_bytes) {
  std::uint64_t total = 0;
  for (const CacheEntry& entry : entries) total += entry.bytes;
  std::ranges::stable_sort(entries, std::less<>(), &CacheEntry::last_used);
  std::vector<CacheEntry> chosen;
  for (CacheEntry& entry : entries) {
    if (total <= max_bytes) break;
    if (entry.in_use) continue;
    total -= entry.bytes;
    chosen.push_back(std::move(entry));
  }
  return chosen;
}

void remove_entry(const CacheEntry& entry) {
  INGOT_CHECK(!entry.in_use,
              IoError(entry.path, fmt::format("{} is being fetched by another process; try again when it has "
                                              "ended",
                                              entry.name)));
  const fs::path path = entry.path;
  const fs::path aside =
      path.parent_path() / fmt::format(".removed-{}-{}", path.filename().string(), ::getpid());
  std::error_code code;
  fs::rename(path, aside, code);
  if (!code) fs::remove_all(aside, code);
  INGOT_CHECK(!code, IoError(entry.path, fmt::format("cannot be deleted: {}", code.message())));
}

}  // namespace ingot::hub
