#pragma once

#include <fstream>
#include <optional>
#include <string>

#include <malloc.h>

#include "ingot/base/files.h"
#include "ingot/core/backend.h"

namespace ingot::test {

/// How much more of the machine's memory this process holds at most than it held when this was made, mapped
/// files included: what a user's system monitor shows. Linux only; none where the kernel does not tell.
class PeakMemory {
 public:
  PeakMemory() {
    backend(kCpu).trim();  // what allocators keep would hide as much that is new
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";
    before_ = bytes("VmHWM:");
  }

  std::optional<std::int64_t> growth() const {
    const auto now = bytes("VmHWM:");
    if (!before_ || !now) return std::nullopt;
    return *now - *before_;
  }

 private:
  static std::optional<std::int64_t> bytes(const std::string& field) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      std::int64_t kilobytes = 0;
      if (word == field && status >> kilobytes) return kilobytes * 1024;
    }
    return std::nullopt;
  }

  std::optional<std::int64_t> before_;
};

}  // namespace ingot::test
