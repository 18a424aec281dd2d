#include "ingot/base/directory_lock.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/file_error.h"
#include "ingot/base/files.h"

namespace ingot {

DirectoryLock::DirectoryLock(std::string path) : path_(std::move(path)) {
  make_directories(path_);
  fd_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0) throw_file_error(path_, "open it");
  if (flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;  // some file systems have no locks
  close(std::exchange(fd_, -1));
  throw IoError(path_, "another process writes its results there; wait for it, or give another directory");
}

void DirectoryLock::check() const {
  if (fd_ < 0) return;
  struct stat ours {
  }, there{};
  const bool same = fstat(fd_, &ours) == 0 && stat(path_.c_str(), &there) == 0 &&
                    ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
  INGOT_CHECK(same, IoError(path_,
                            "is not the directory any more that this run began in: it was moved or "
                            "removed; what was saved lies where it was moved to"));
}

DirectoryLock::~DirectoryLock() {
  if (fd_ < 0) return;
  rmdir(path_.c_str());  // fails, as it should, where there is anything in it
  close(fd_);
}

}  // namespace ingot
