#include "ingot/base/checksums.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigest = 64, kLongestName = 255, kMostBytes = std::size_t{1} << 20;

/// The file's name in a line "<sha256>  <file>". It lies in the directory itself.
std::string listed_name(const std::string& line, const std::string& path) {
  const std::string_view text = line;
  const bool is_line = text.size() > kDigest + 2 && text.substr(kDigest, 2) == "  " &&
                       text.find_first_not_of("0123456789abcdef") == kDigest;
  const std::string_view name = is_line ? text.substr(kDigest + 2) : std::string_view();
  const bool is_name = !name.empty() && name.size() <= kLongestName && name != "." && name != ".." &&
                       name.find('/') == name.npos && name.find('\0') == name.npos;
  INGOT_CHECK(is_name,
              FormatError(path, -1, "line",
                          "is not '<sha256>  <file>': " + line.substr(0, kDigest + 2 + kLongestName)));
  return std::string(name);
}

}  // namespace

void write_checksums(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  std::string sums;
  for (const std::string& name : names) sums += sha256_file(directory + "/" + name) + "  " + name + "\n";
  write_file_atomically(directory + "/" + kChecksumsFile, sums);
}

void verify_checksums(const std::string& directory) {
  INGOT_CHECK(fs::is_directory(directory), IoError(directory, "is not a directory"));
  const std::string path = directory + "/" + kChecksumsFile;
  INGOT_CHECK(fs::exists(path), FormatError(directory, -1, kChecksumsFile, "is missing"));
  std::error_code unreadable;
  INGOT_CHECK(fs::is_regular_file(path, unreadable) && fs::file_size(path, unreadable) <= kMostBytes,
              FormatError(path, -1, "size", "is more than 1 MiB, or it is not a file"));
  std::istringstream sums(read_file(path));
  std::set<std::string> listed;
  for (std::string line; std::getline(sums, line);) {
    const std::string name = listed_name(line, path);
    INGOT_CHECK(listed.insert(name).second, FormatError(path, -1, name, "is listed twice: it is damaged"));
    INGOT_CHECK(fs::exists(directory + "/" + name), FormatError(directory, -1, name, "is missing"));
    INGOT_CHECK(
        sha256_file(directory + "/" + name) == line.substr(0, kDigest),
        FormatError(directory, -1, name, "does not have the SHA-256 that it was saved with: it is damaged"));
  }
  INGOT_CHECK(!listed.empty(), FormatError(path, 0, "line", "is empty: it is damaged"));
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    const bool saved = entry.path().extension() == ".safetensors" || entry.path().extension() == ".json";
    INGOT_CHECK(!saved || listed.contains(name),
                FormatError(path, -1, name,
                            "is not listed: the list was cut short, or the file does not belong here"));
  }
}

void remove_with_checksums(const std::string& directory) {
  std::error_code ignored;
  fs::remove(directory + "/" + kChecksumsFile, ignored);
  fs::remove_all(directory, ignored);
}

}  // namespace ingot
