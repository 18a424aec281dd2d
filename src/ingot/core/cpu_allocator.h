#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

namespace ingot {

/// A size-class cache over the system's memory. Sizes are rounded up by at most an eighth; freed blocks go to
/// their class' list and serve the next allocation of that class. Thread-safe.
class CpuAllocator {
 public:
  ~CpuAllocator() { trim(); }

  /// Aligned to 64 bytes (2 MiB, with huge pages asked for, from 4 MiB up). Null when the system has no more.
  void* allocate(std::size_t bytes);
  void deallocate(void* data, std::size_t bytes) noexcept;
  void trim() noexcept;
  std::size_t cached_bytes() const;

 private:
  static constexpr std::size_t kClasses = 8 * 64;
  mutable std::mutex mutex_;
  std::array<std::vector<void*>, kClasses> free_;
  std::size_t cached_ = 0;
};

}  // namespace ingot
