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

std::string file_identity(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return path;
  std::string sample;
  try {
    sample = sample_hash(path);
  } catch (
      const IoError&) {  // a file beside the model that nobody may read: its name, size and time are left
  }
  return fmt::format("{}:{}:{}.{:09}:{}", fs::path(path).filename().string(), info.st_size,
                     info.st_mtim.tv_sec, info.st_mtim.tv_nsec, sample);
}

std::string model_identity(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    std::vector<std::string> parts = gguf_part_paths(path);
    if (parts.empty()) return file_identity(path);
    std::ranges::transform(parts, parts.begin(), file_identity);
    return fmt::format("{}", fmt::join(parts, ", "));
  }
  std::set<std::string> files;
  for (const fs::directory_entry& file : fs::directory_iterator(path, ignored)) {
    if (file.is_regular_file(ignored) && file.path().extension() != ".ingot-packed")
      files.insert(file_identity(file.path().string()));
  }
  return fmt::format("{}", fmt::join(files, ", "));
}

}  // namespace ingot::infer
