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

  /// IoError where the path does not lead to the directory any more that was locked: it was moved or removed,
  /// and what is written there now would be of nobody's run.
  void check() const;

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace ingot
