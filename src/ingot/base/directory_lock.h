#pragma once

#include <string>

namespace ingot {

/// Keeps other processes of ours out of a directory that this one writes its results to: two runs in one
/// would overwrite each other's. Makes the directory; where nothing was put into it, it goes again at the
/// end. A crash leaves no lock behind.
class DirectoryLock {
 public:
  /// IoError at once where another process holds it.
  explicit DirectoryLock(std::string path);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace ingot
