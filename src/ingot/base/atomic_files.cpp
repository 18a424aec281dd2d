// What makes writing safe against a crash at any moment: temporary names, fsync in the right order, rename.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/fault.h"
#include "ingot/base/file_error.h"
#include "ingot/base/files.h"
#include "ingot/base/random_seed.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial-";    // being written, or left by a crash
constexpr std::string_view kStandardOutput = "-";     // the file of this name is "./-"
constexpr std::string_view kReplaced = ".replaced-";  // the old one, on its way out

std::string parent_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string random_suffix() { return fmt::format("{:08x}", static_cast<std::uint32_t>(random_seed())); }

/// Makes what a path names reach the disk: a file's bytes, or a directory's list of names.
void sync_path(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw_file_error(path, "open it to write it to disk");
  const int result = fsync(fd);
  const int code = errno;
  close(fd);
  // Some file systems cannot sync a directory, and say so; there is nothing better to be done on them.
  if (result != 0 && code != EINVAL) throw_file_error(path, "write it to disk", code);
}

void sync_tree(const std::string& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) {
      sync_tree(entry.path().string());
    } else {
      sync_path(entry.path().string());
    }
  }
  sync_path(directory);
}

void rename_path(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) throw_file_error(to, fmt::format("rename {} to it", from));
}

/// What a path names in the end: links are followed, also those to nothing yet.
std::string link_target(const std::string& path) {
  fs::path target = path;
  std::error_code ignored;  // what cannot be looked at is told by who opens it
  for (int links = 0; fs::is_symlink(target, ignored); ++links) {
    INGOT_CHECK(links < 40, IoError(path, "is a link that leads round in a circle; remove it"));
    target = target.parent_path() / fs::read_symlink(target);
  }
  return target.string();
}

/// Whether it is a device, a pipe or a socket, which is written to and not replaced.
bool is_stream(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

/// Swaps two names in one step, where the file system can.
bool exchange_names(const std::string& a, const std::string& b) {
  return renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

/// Takes the lock that says "a living process is at this"; -1 where someone else holds it.
int lock_path(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return -1;
}

/// The name that a leftover stands for, or nothing: "step-10" of "step-10.partial-0badcafe".
std::string name_before(const std::string& name, std::string_view mark) {
  const std::size_t at = name.rfind(mark);
  const bool ours = at != std::string::npos && at > 0 && name.size() == at + mark.size() + 8 &&
                    name.find_first_not_of("0123456789abcdef", at + mark.size()) == std::string::npos;
  return ours ? name.substr(0, at) : std::string();
}

/// Whether programs like this one write such a file into the directory of a model, a checkpoint or a fit;
/// packed weights for the next start are of the old model, and go with it.
bool is_model_file(const fs::path& file) {
  const std::string whole = name_before(file.string(), kPartial);
  const fs::path name = whole.empty() ? file : fs::path(whole);
  static const std::set<fs::path> endings{".ingot-packed", ".jinja", ".json", ".model", ".safetensors"};
  static const std::set<fs::path> names{"README.md", "SHA256SUMS", "merges.txt", "report.html", "vocab.txt"};
  return endings.contains(name.extension()) || names.contains(name);
}

/// A new directory takes an old one away: IoError where that holds anything but a model's files.
void check_replaceable(const std::string& path) {
  if (!fs::exists(path)) return;
  INGOT_CHECK(fs::is_directory(path), IoError(path, "is a file; give the name of a directory"));
  if (fs::is_empty(path)) return;
  bool model = false;
  for (const auto& entry : fs::directory_iterator(path)) {
    const fs::path name = entry.path().filename();
    INGOT_CHECK(
        entry.is_regular_file() && is_model_file(name),
        IoError(path, fmt::format("holds '{}', which is not part of a model and would be lost; give another "
                                  "directory, or move that away",
                                  name.string())));
    model = model || name == "config.json" || name == "SHA256SUMS" || name.extension() == ".safetensors";
  }
  INGOT_CHECK(model,
              IoError(path,
                      "holds files that would be lost, and no model (no config.json, no .safetensors); "
                      "give another directory, or move them away"));
}

/// Whole, and behind what was printed before. Not by opening /dev/stdout, which fails on a socket and on
/// another user's pipe, and has an offset of its own on a file.
void write_standard_output(FunctionRef<void(FileWriter&)> write) {
  const int memory = memfd_create("standard output", MFD_CLOEXEC);
  if (memory < 0) throw_file_error("standard output", "keep it in memory");
  const std::unique_ptr<const int, void (*)(const int*)> close_at_end(&memory,
                                                                      [](const int* fd) { close(*fd); });
  const std::string path = fmt::format("/proc/self/fd/{}", memory);
  FileWriter out(path);
  write(out);
  out.close();
  const std::string content = read_file(path);
  const bool written =
      std::fwrite(content.data(), 1, content.size(), stdout) == content.size() && std::fflush(stdout) == 0;
  if (!written && errno == EPIPE)  // who stopped reading is told nothing
    throw std::system_error(EPIPE, std::generic_category(), "standard output");
  if (!written) throw_file_error("standard output", "write it");
}

}  // namespace

void write_file_atomically(const std::string& path, std::string_view content) {
  write_file_atomically(path, [&](FileWriter& out) { out.write(content); });
}

void write_file_atomically(const std::string& link, FunctionRef<void(FileWriter&)> write) {
  if (link == kStandardOutput) return write_standard_output(write);
  if (is_stream(link)) {  // asked first: links like /dev/stdout need not lead to a name
    FileWriter out(link);
    write(out);
    return out.close();
  }
  const std::string path = link_target(link);
  std::error_code ignored;  // what cannot be looked at is told by who opens it
  INGOT_CHECK(!fs::is_directory(path, ignored), IoError(link, "is a directory; name a file"));
  INGOT_CHECK(fs::exists(parent_of(path), ignored) || ignored,
              IoError(link, fmt::format("cannot be written: there is no directory {}; make it first",
                                        parent_of(path))));
  const std::string partial = path + std::string(kPartial) + random_suffix();
  try {
    FileWriter out(partial);
    const int lock = lock_path(partial);
    const std::unique_ptr<const int, void (*)(const int*)> unlock(&lock, [](const int* fd) {
      if (*fd >= 0) close(*fd);
    });
    write(out);
    out.sync();
    out.close();
    fault_point("file.before_rename");
    rename_path(partial, path);
  } catch (...) {
    unlink(partial.c_str());
    throw;
  }
  sync_path(parent_of(path));
}

AtomicDirectory::AtomicDirectory(std::string final_path)
    : final_path_(link_target(without_trailing_slashes(std::move(final_path)))) {
  check_replaceable(final_path_);
  make_directories(parent_of(final_path_));
  while (lock_ < 0) {
    path_ = final_path_ + std::string(kPartial) + random_suffix();
    if (mkdir(path_.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      throw_file_error(path_, "create the directory");
    }
    lock_ = lock_path(path_);
    struct stat info {};
    // Between mkdir and the lock, another process's sweep may have taken it for a leftover: then once more.
    if (lock_ >= 0 && (fstat(lock_, &info) != 0 || info.st_nlink == 0)) close(std::exchange(lock_, -1));
  }
}

AtomicDirectory::~AtomicDirectory() {
  if (!path_.empty()) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  if (lock_ >= 0) close(lock_);
}

void AtomicDirectory::commit() {
  INGOT_ASSERT(!path_.empty());
  sync_tree(path_);
  fault_point("directory.before_rename");
  std::string old;
  if (!fs::exists(final_path_)) {
    rename_path(path_, final_path_);
  } else if (exchange_names(path_, final_path_)) {
    old = path_;
  } else {
    // Two renames: a crash between them leaves the old one under a name from which sweep_partial puts it
    // back.
    old = final_path_ + std::string(kReplaced) + random_suffix();
    rename_path(final_path_, old);
    fault_point("directory.between_renames");
    rename_path(path_, final_path_);
  }
  path_.clear();
  sync_path(parent_of(final_path_));
  fault_point("directory.after_rename");
  std::error_code ignored;  // the new one stands; what is left of the old one goes with the next sweep
  if (!old.empty()) fs::remove_all(old, ignored);
}

std::vector<std::string> sweep_partial(const std::string& parent) {
  std::vector<std::string> leftovers, done;
  std::error_code code;
  for (fs::directory_iterator it(parent, code), end; !code && it != end; it.increment(code)) {
    const std::string name = it->path().filename().string();
    if (!name_before(name, kPartial).empty() || !name_before(name, kReplaced).empty()) {
      leftovers.push_back(it->path().string());
    }
  }
  for (const std::string& path : leftovers) {
    const int lock = lock_path(path);
    if (lock < 0) continue;
    const std::string original = name_before(path, kReplaced);
    if (!original.empty() && !fs::exists(original)) {
      rename_path(path, original);
    } else {
      fs::remove_all(path, code);
    }
    close(lock);
    done.push_back(path);
  }
  return done;
}

}  // namespace ingot
