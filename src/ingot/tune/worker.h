#pragma once

#include <cstdint>
#include <string>

namespace ingot::tune {

/// A process, so that another one can tell whether it still lives.
struct Worker {
  std::string name;     ///< "host:pid", for people
  std::string machine;  ///< where the process number means something: this boot, this PID namespace
  std::int64_t pid = 0;
  std::int64_t started = 0;  ///< the kernel's clock ticks, so that a number used again is another process

  static Worker self();
  /// False only where it is certain: on this machine, and no such process (or one that waits to be reaped).
  bool may_live() const;
};

}  // namespace ingot::tune
