#include "ingot/base/scratch_memory.h"

#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ingot/base/fault.h"
#include "ingot/base/file_error.h"
#include "ingot/base/units.h"

namespace ingot {
namespace {

// Some file systems have no files that never had a name; there it loses its name at once.
int open_nameless(const std::string& directory) {
  const int file = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  std::string path = directory + "/scratch.XXXXXX";
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

// All of the space, as an errno, or 0.
int reserve(int file, std::size_t bytes) {
  Fault::Kind then{};
  if (fault_bytes_allowed(bytes, then) == bytes) return ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
  if (then == Fault::Kind::crash) fault_crash();
  return ENOSPC;
}

}  // namespace

ScratchMemory::ScratchMemory(const std::string& directory, std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const int file = open_nameless(directory);
  if (file < 0) throw_file_error(directory, "make a file in it");
  const int full = reserve(file, bytes);
  void* mapped = MAP_FAILED;
  if (full == 0) mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int problem = full != 0 ? full : errno;
  ::close(file);
  if (mapped == MAP_FAILED)
    throw_file_error(directory, fmt::format("keep {} in a file of it", human_bytes(bytes)), problem);
  ::madvise(mapped, bytes, MADV_SEQUENTIAL);
  data_ = mapped;
}

ScratchMemory::~ScratchMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace ingot
