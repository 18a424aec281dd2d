#include "ingot/hub/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/percent.h"
#include "ingot/hub/snapshot_files.h"
#include "ingot/hub/url.h"

namespace ingot::hub {
namespace {

namespace fs = std::filesystem;

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

/// One half of "org/name": what the Hub allows (letters, digits, "-_.", at most 96, no "--", no "..").
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 96 && text.find("--") == text.npos && text.find("..") == text.npos &&
         text.front() != '-' && text.front() != '.' && text.back() != '-' && text.back() != '.' &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                  c == '_' || c == '.';
         });
}

/// A link may lead out of the cache only if somebody tampered with it: then nothing of it is used.
void check_inside(const fs::path& path, const fs::path& cache) {
  std::error_code code;
  const fs::path root = fs::canonical(cache, code);
  const auto check = [&](const fs::path& file) {
    const fs::path real = fs::weakly_canonical(file, code);
    const bool inside = std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first == root.end();
    INGOT_CHECK(inside,
                IoError(file.string(), fmt::format("is a link out of the cache, to {}", real.string())));
  };
  check(path);
  if (!fs::is_directory(path, code)) return;
  for (const auto& entry : fs::recursive_directory_iterator(path, code)) check(entry.path());
}

// The files that a note of begin() names; none where there is no note.
std::vector<std::string> listed(const std::string& note) {
  std::vector<std::string> files;
  std::error_code code;
  if (!fs::is_regular_file(note, code)) return files;
  std::istringstream lines(read_file(note));
  for (std::string line; std::getline(lines, line);)
    if (is_safe_relative_path(line)) files.push_back(line);
  return files;
}

bool links_are_wanted() {
  // Environment: HF_HUB_DISABLE_SYMLINKS=1 | the cache holds copies, not links
  const char* setting = std::getenv("HF_HUB_DISABLE_SYMLINKS");
  return setting == nullptr || !parse_bool(setting).value_or(false);
}

}  // namespace

bool is_safe_relative_path(std::string_view path) {
  if (path.empty() || path.size() > 1024 || path.front() == '/') return false;
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
    if (std::ranges::any_of(part, [](unsigned char c) { return c < 0x20 || c == 0x7F || c == '\\'; }))
      return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool is_commit(std::string_view text) { return text.size() == 40 && std::ranges::all_of(text, is_hex); }

HubRepo parse_hub_repo(std::string_view text) {
  const std::string shown(text);
  const bool scheme = text.starts_with("hf://");
  if (scheme) text.remove_prefix(5);
  if (text.starts_with("models/")) text.remove_prefix(7);
  HubRepo repo;
  repo.dataset = scheme && text.starts_with("datasets/");
  if (repo.dataset) text.remove_prefix(9);
  const std::size_t at = text.find('@');
  std::string_view id = text.substr(0, at), rest;
  if (at != text.npos) {
    rest = text.substr(at + 1);
    const std::size_t slash = rest.find('/');
    repo.revision = percent_decode(rest.substr(0, slash));
    rest = slash == rest.npos ? std::string_view() : rest.substr(slash + 1);
    INGOT_CHECK(is_safe_relative_path(repo.revision),
                InvalidConfig(shown, "names no revision behind '@'; write a branch, a tag or a commit"));
  } else if (const std::size_t first = id.find('/'); first != id.npos) {
    const std::size_t second = id.find('/', first + 1);
    if (second != id.npos) {
      rest = id.substr(second + 1);
      id = id.substr(0, second);
    }
  }
  const std::size_t slash = id.find('/');
  const bool good =
      slash == id.npos ? is_name(id) : is_name(id.substr(0, slash)) && is_name(id.substr(slash + 1));
  INGOT_CHECK(
      good, InvalidConfig(shown, "names no repository of the Hub; write org/name or hf://org/name@revision"));
  repo.id = id;
  if (!rest.empty()) {
    INGOT_CHECK(is_safe_relative_path(rest), InvalidConfig(shown, "names no file of a repository"));
    repo.file = rest;
  }
  return repo;
}

bool looks_like_hub_repo(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string_view name = text.substr(0, text.find('@'));
  return slash != text.npos && slash < name.size() && is_name(name.substr(0, slash)) &&
         is_name(name.substr(slash + 1));
}

std::string HubCache::repo_folder(const HubRepo& repo) const {
  std::string folder = (repo.dataset ? "datasets--" : "models--") + repo.id;
  if (const std::size_t slash = folder.find('/'); slash != folder.npos) folder.replace(slash, 1, "--");
  return directory_ + "/" + folder;
}

std::string HubCache::blob(const HubRepo& repo, std::string_view etag) const {
  return fmt::format("{}/blobs/{}", repo_folder(repo), etag);
}

std::string HubCache::lock(const HubRepo& repo, std::string_view etag) const {
  return fmt::format("{}/.locks/{}/{}.lock", directory_, fs::path(repo_folder(repo)).filename().string(),
                     etag);
}

std::string HubCache::snapshot(const HubRepo& repo, std::string_view commit) const {
  return fmt::format("{}/snapshots/{}", repo_folder(repo), commit);
}

std::optional<std::string> HubCache::commit_of(const HubRepo& repo) const {
  if (is_commit(repo.revision)) return repo.revision;
  const std::string path = repo_folder(repo) + "/refs/" + repo.revision;
  std::error_code missing;
  if (!fs::is_regular_file(path, missing)) return std::nullopt;
  std::string commit = read_file(path);
  while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back())) != 0) commit.pop_back();
  INGOT_CHECK(is_commit(commit),
              FormatError(path, 0, "commit", "is not 40 hexadecimal digits; delete the file"));
  return commit;
}

std::optional<std::string> HubCache::find(const HubRepo& repo) const {
  const auto commit = commit_of(repo);
  if (!commit) return std::nullopt;
  std::string path = snapshot(repo, *commit);
  if (!repo.file.empty()) path += "/" + repo.file;
  std::error_code missing;
  if (!fs::exists(path, missing)) return std::nullopt;
  check_inside(path, directory_);
  return path;
}

std::string HubCache::contents(const HubRepo& repo, std::string_view commit) const {
  return fmt::format("{}/.locks/{}/{}.files", directory_, fs::path(repo_folder(repo)).filename().string(),
                     commit);
}

std::optional<std::string> HubCache::missing(const HubRepo& repo) const {
  const auto commit = commit_of(repo);
  if (!commit || !repo.file.empty()) return std::nullopt;
  return missing_file(snapshot(repo, *commit), listed(contents(repo, *commit)));
}

void HubCache::begin(const HubRepo& repo, const std::string& commit,
                     const std::vector<std::string>& files) const {
  const std::string path = contents(repo, commit);
  make_directories(fs::path(path).parent_path().string());
  write_file_atomically(path, fmt::format("{}\n", fmt::join(files, "\n")));
}

// Another pull of this commit may have noted files that are still on their way.
void HubCache::end(const HubRepo& repo, const std::string& commit) const {
  const std::string list = contents(repo, commit), directory = snapshot(repo, commit);
  std::error_code code;
  for (const std::string& file : listed(list))
    if (!fs::exists(directory + "/" + file, code)) return;
  fs::remove(list, code);
}

void HubCache::write_ref(const HubRepo& repo, const std::string& commit) const {
  if (is_commit(repo.revision)) return;
  const std::string path = repo_folder(repo) + "/refs/" + repo.revision;
  std::error_code missing;
  if (fs::is_regular_file(path, missing) && read_file(path) == commit) return;
  make_directories(fs::path(path).parent_path().string());
  write_file_atomically(path, commit);
}

void HubCache::link(const HubRepo& repo, const std::string& commit, const std::string& file,
                    const std::string& etag) const {
  const fs::path pointer = fs::path(snapshot(repo, commit)) / file;
  const fs::path target = blob(repo, etag);
  make_directories(pointer.parent_path().string());
  std::error_code code;
  if (fs::exists(pointer, code)) return;
  fs::remove(pointer, code);  // a link whose blob is gone
  if (links_are_wanted()) {
    // Made under another name first: two processes may do this at once.
    fs::create_symlink(fs::relative(target, pointer.parent_path()), pointer, code);
    if (!code || fs::exists(pointer)) return;
  }
  fs::rename(target, pointer, code);
  INGOT_CHECK(!code, IoError(pointer.string(), fmt::format("cannot put the file there: {}", code.message())));
}

void HubCache::prepare() const {
  make_directories(directory_);
  const std::string tag = directory_ + "/CACHEDIR.TAG";
  std::error_code missing;
  if (fs::exists(tag, missing)) return;
  write_file_atomically(tag,
                        "Signature: 8a477f597d28d172789f06886806bc55\n"
                        "# This directory holds downloads that can be fetched again.\n");
}

}  // namespace ingot::hub
