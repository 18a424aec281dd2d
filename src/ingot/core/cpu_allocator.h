#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace ingot {

/// A size-class cache over the system's memory. Sizes are rounded up by at most an eighth; freed blocks go to
/// their class' list and serve the next allocation of that class. Where sizes vary, classes fill up one after
/// the other: beyond twice the most that was ever in use at once, and kSpare, blocks go back to the system,
/// those first whose class was asked for longest ago. Thread-safe.
class CpuAllocator {
 public:
  ~CpuAllocator() { trim(); }

  /// Aligned to 64 bytes (2 MiB, with huge pages asked for, from 4 MiB up). Null when the system has no more.
  void* allocate(std::size_t bytes);
  void deallocate(void* data, std::size_t bytes) noexcept;
  void trim() noexcept;
  std::size_t cached_bytes() const;
  static constexpr std::size_t kSpare = std::size_t{16} << 20;

 private:
  static constexpr std::size_t kClasses = 8 * 64;

  void make_room() noexcept;

  mutable std::mutex mutex_;
  std::array<std::vector<void*>, kClasses> free_;
  std::array<std::uint64_t, kClasses> asked_{};  // when for a block of the class, as a count of allocations
  std::uint64_t allocations_ = 0;
  std::size_t cached_ = 0, used_ = 0, most_used_ = 0;
};

}  // namespace ingot
