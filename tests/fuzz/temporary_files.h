#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <unistd.h>

namespace ingot::test {

/// A directory of this process and target, for targets that read directories. It goes with the process.
class FuzzDirectory {
 public:
  FuzzDirectory()
      : path_(std::filesystem::temp_directory_path() /
              ("ingot_fuzz_" + std::to_string(::getpid()) + "_" + std::to_string(made_++))) {
    std::filesystem::create_directories(path_);
  }
  ~FuzzDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  FuzzDirectory(const FuzzDirectory&) = delete;
  FuzzDirectory& operator=(const FuzzDirectory&) = delete;

  std::string path() const { return path_.string(); }
  void write(const std::string& name, std::string_view content) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
  }

 private:
  static inline int made_ = 0;
  std::filesystem::path path_;
};

}  // namespace ingot::test
