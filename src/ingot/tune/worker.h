#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ingot::tune {

/// A process, so that another one can tell whether it still lives.
struct Worker {
  std::string name;     ///< "host:pid", for people
  std::string machine;  ///< where the process number means something: this boot, this PID namespace
  std::int64_t pid = 0;
  std::int64_t started = 0;  ///< the kernel's clock ticks, so that a number used again is another process

  static Worker self();
  /// Whether the process runs (one that waits to be reaped does not). Nothing where only its heartbeat can
  /// tell: on another machine, and of this very process, one of whose tuners may have been forgotten.
  std::optional<bool> lives() const;
};

}  // namespace ingot::tune
