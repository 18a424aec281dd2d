#include "ingot/base/file_memory.h"

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace ingot {
namespace {

// The pages that hold these bytes, whole.
void advise(const void* data, std::size_t bytes, int advice) {
  if (bytes == 0) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(data) / page * page;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(data) + bytes;
  static_cast<void>(::madvise(reinterpret_cast<void*>(begin), end - begin, advice));
}

}  // namespace

// A mapping may be divided into several lines of the list, one behind the other.
bool is_file_memory(const void* data, std::size_t bytes) {
  auto at = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t end = at + bytes;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t first = 0, last = 0;
    std::uint64_t inode = 0;
    char dash = 0;
    std::string flags, offset, file_system;
    words >> std::hex >> first >> dash >> last >> flags >> offset >> file_system >> std::dec >> inode;
    if (!words || at < first || at >= last) continue;
    if (inode == 0) return false;
    at = last;
    if (at >= end) return true;
  }
  return false;
}

void read_ahead(const void* data, std::size_t bytes) { advise(data, bytes, MADV_WILLNEED); }
void let_go(const void* data, std::size_t bytes) { advise(data, bytes, MADV_COLD); }

}  // namespace ingot
