#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "ingot/core/block_pool.h"

#if defined(__SANITIZE_ADDRESS__)
#define INGOT_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define INGOT_ADDRESS_SANITIZER 1
#endif
#endif

namespace ingot {

/// A cache over the system's memory. Blocks from kPooledFrom on come from a BlockPool, in which freed memory
/// serves blocks of any size. Smaller sizes are rounded up by at most an eighth; freed blocks go to their
/// class' list and serve the next allocation of that class. Where sizes vary, classes fill up one after the
/// other: beyond twice the most that was ever in use at once, and kSpare, blocks go back to the system, those
/// first whose class was asked for longest ago. Thread-safe.
///
/// Under AddressSanitizer nothing is kept: each block is one of malloc's, so that it sees what lies outside.
class CpuAllocator {
 public:
  ~CpuAllocator() { trim(); }

  /// Aligned to 64 bytes. Null when the system has no more.
  void* allocate(std::size_t bytes);
  void deallocate(void* data, std::size_t bytes) noexcept;
  void trim() noexcept;
  std::size_t cached_bytes() const;
  static constexpr std::size_t kSpare = std::size_t{16} << 20;
  static constexpr std::size_t kPooledFrom = std::size_t{64} << 10;
#if defined(INGOT_ADDRESS_SANITIZER)
  static constexpr bool kKeeps = false;
#else
  static constexpr bool kKeeps = true;
#endif

 private:
  static constexpr std::size_t kClasses = 8 * 64;

  void* allocate_large(std::size_t size);
  void* allocate_small(std::size_t bytes);
  void make_room() noexcept;
  void give_back() noexcept;

  mutable std::mutex mutex_;
  BlockPool large_;
  std::array<std::vector<void*>, kClasses> free_;
  std::array<std::uint64_t, kClasses> asked_{};  // when for a block of the class, as a count of allocations
  std::uint64_t allocations_ = 0;
  std::size_t cached_ = 0, used_ = 0, most_used_ = 0;
};

}  // namespace ingot
