#include "ingot/infer/file_identity.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"
#include "ingot/weights/gguf.h"

namespace ingot::infer {
namespace {

namespace fs = std::filesystem;

/// Hash of a file's header and of blocks spread over the rest: another file of the same name, size and time
/// is another file.
std::string sample_hash(const std::string& path) {
  constexpr std::size_t kHeader = std::size_t{256} << 10, kBlock = 4096, kBlocks = 64;
  const MappedFile file(path, MappedFile::Access::random);
  const std::string_view all = file.text();
  std::string sample(all.substr(0, kHeader));
  for (std::size_t i = 1; i <= kBlocks && all.size() > kHeader; ++i)
    sample += all.substr((all.size() - kBlock) / kBlocks * i, kBlock);
  sample += all.substr(all.size() - std::min(all.size(), kBlock));
  return sha256_hex(sample);
}

}  // namespace

namespace {

// With or without the time of the last change.
std::string identity(const std::string& path, bool time) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return path;
  std::string sample;
  try {
    sample = sample_hash(path);
  } catch (
      const IoError&) {  // a file beside the model that nobody may read: its name, size and time are left
  }
  const std::string changed =
      time ? fmt::format(":{}.{:09}", info.st_mtim.tv_sec, info.st_mtim.tv_nsec) : std::string();
  return fmt::format("{}:{}{}:{}", fs::path(path).filename().string(), info.st_size, changed, sample);
}

std::string identity_of_model(const std::string& path, bool time) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    std::vector<std::string> parts = gguf_part_paths(path);
    if (parts.empty()) return identity(path, time);
    std::ranges::transform(parts, parts.begin(),
                           [time](const std::string& part) { return identity(part, time); });
    return fmt::format("{}", fmt::join(parts, ", "));
  }
  std::set<std::string> files;
  for (const fs::directory_entry& file : fs::directory_iterator(path, ignored)) {
    if (file.is_regular_file(ignored) && file.path().extension() != ".ingot-packed")
      files.insert(identity(file.path().string(), time));
  }
  return fmt::format("{}", fmt::join(files, ", "));
}

}  // namespace

std::string file_identity(const std::string& path) { return identity(path, true); }
std::string model_identity(const std::string& path) { return identity_of_model(path, true); }
std::string model_digest(const std::string& path) { return sha256_hex(identity_of_model(path, false)); }

}  // namespace ingot::infer
