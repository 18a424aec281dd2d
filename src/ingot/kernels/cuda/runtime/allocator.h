#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

namespace ingot::kernels::cuda {

/// Device memory by blocks of large segments, since asking the driver costs more than most kernels run. A
/// block belongs to the stream that it was allocated on: freed there, it can serve that stream's next
/// allocation at once, because a stream works in order. Freed on another, it waits until that stream's work
/// is done. Thread-safe.
class CachingAllocator {
 public:
  struct Options {
    /// Blocks are multiples of this.
    std::size_t granularity = 512;
    /// Off, every block is the driver's own, of the exact size: the emulator then sees each byte that a
    /// kernel touches outside.
    bool caching = true;
    /// What is taken from the driver at once, with the first block of more than a MiB; then what is taken at
    /// least each time. As much as the block needs where the device has less.
    std::size_t pool_size = 0, pool_growth = 0;
  };
  CachingAllocator() : CachingAllocator(Options{}) {}
  explicit CachingAllocator(Options options) : options_(options) {}
  /// The device must still be there. Blocks in use are lost.
  ~CachingAllocator();

  /// Null where the device has no more, after unused segments were given back.
  void* allocate(std::size_t bytes, void* stream);
  /// `stream` is where the memory was used last. A stream that is held only records: what it was told of the
  /// memory of others has not run, and need not be waited for.
  void deallocate(void* data, void* stream) noexcept;
  /// Until drop(stream), memory of this stream goes to its own allocations only: a captured graph that had it
  /// in passing may run again.
  void hold(void* stream);
  void drop(void* stream) noexcept;
  /// Gives segments without blocks in use back to the driver.
  void trim() noexcept;

  std::size_t reserved_bytes() const;  ///< taken from the driver
  std::size_t used_bytes() const;      ///< of these, in blocks in use (rounding counted)

 private:
  struct Block {
    char* data = nullptr;
    std::size_t size = 0;
    void* stream = nullptr;
    bool used = false;
    Block *before = nullptr, *after = nullptr;  // neighbours in the segment
  };
  struct Smaller {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->data < b->data;
    }
  };
  struct Waiting {
    Block* block;
    void* event;
  };
  using FreeBlocks = std::set<Block*, Smaller>;

  std::size_t rounded(std::size_t bytes) const;
  std::size_t pooled(std::size_t segment);
  Block* new_segment(std::size_t size, void* stream);
  void split(Block* block, std::size_t size);
  void release(Block* block);
  void give_back(Block* block);
  Block* merged(Block* block);
  void collect(bool wait);
  void give_back_segments();

  mutable std::mutex mutex_;
  Options options_;
  std::map<void*, FreeBlocks> free_;  // by stream
  std::unordered_map<void*, std::unique_ptr<Block>> blocks_;
  std::vector<Waiting> waiting_;
  std::map<void*, std::vector<Block*>> held_;  // by stream; the freed blocks where nothing is cached
  std::size_t reserved_ = 0, used_ = 0;
};

}  // namespace ingot::kernels::cuda
