#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace ingot {

/// Large blocks in ranges of the system's memory. What is freed joins its free neighbours, and a block is cut
/// off the smallest free range that holds it: memory serves whatever size comes next. Not thread-safe.
class BlockPool {
 public:
  BlockPool();
  ~BlockPool() { trim(); }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// What a block of so many bytes takes.
  static std::size_t size_of(std::size_t bytes);
  /// Aligned to kAlignment. Null when the system has no more.
  void* allocate(std::size_t size);
  /// Of the size that it was allocated with.
  void deallocate(void* data, std::size_t size) noexcept;
  /// Gives free memory back to the system, in whole pages.
  void trim() noexcept;
  std::size_t free_bytes() const { return free_bytes_; }
  static constexpr std::size_t kAlignment = 1024;
  static constexpr std::size_t kMost = SIZE_MAX / 2;  ///< bytes of a block

 private:
  using Range = std::map<std::byte*, std::size_t>::iterator;  // begin and size
  void* cut(Range range, std::size_t size) noexcept;
  void add(std::byte* begin, std::size_t size);
  void add_or_lose(std::byte* begin, std::size_t size) noexcept;
  void change(Range range, std::byte* begin, std::size_t size) noexcept;
  bool map(std::size_t size);
  bool grow(std::size_t size);

  std::map<std::byte*, std::size_t> free_;
  std::set<std::pair<std::size_t, std::byte*>> by_size_;
  std::size_t free_bytes_ = 0;
  std::byte* end_ = nullptr;  // of what was asked of the system, which grows from there if it can
};

}  // namespace ingot
