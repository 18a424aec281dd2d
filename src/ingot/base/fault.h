#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ingot {

/// A misfortune that tests arrange: a full disk, no memory, an error, or the process killed, stopped or
/// hanging, at a point that the code names. Nothing happens unless a test asks, and asking costs one relaxed
/// load.
///
/// Points: "write" counts bytes that go to files; every other point (see fault_point) counts how often it is
/// passed. From outside, INGOT_FAULT=kind:point:count, e.g. crash:write:4096, no_space:write:100000 or
/// crash:directory.before_rename:1, read when the process first passes a point.
struct Fault {
  /// ENOSPC from the write; SIGKILL, SIGSTOP to the whole process; a thread that goes no further; an
  /// exception; std::bad_alloc, as where there is no memory
  enum class Kind { no_space, crash, stop, hang, error, memory };
  Kind kind = Kind::no_space;
  std::string point;
  std::uint64_t count = 1;  // bytes that still go through, or the passing that meets it (1: the first)
};

/// Reads "kind:point:count"; InvalidConfig where it is not that.
Fault parse_fault(std::string_view text);

/// Arranges a fault for as long as it lives. One at a time.
class ScopedFault {
 public:
  explicit ScopedFault(Fault fault);
  ~ScopedFault();
  ScopedFault(const ScopedFault&) = delete;
  ScopedFault& operator=(const ScopedFault&) = delete;
};

/// Marks a point where a failure is worth testing; kills the process, stops it, hangs, or throws Error or
/// std::bad_alloc, if that was arranged for here.
void fault_point(std::string_view point);

/// How many of the next `bytes` bytes still reach the file; what follows them is `then` (set only when
/// fewer).
std::uint64_t fault_bytes_allowed(std::uint64_t bytes, Fault::Kind& then);

/// Ends the process as kill -9 does.
[[noreturn]] void fault_crash();

}  // namespace ingot
