#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ingot/core/dtype.h"
#include "ingot/core/shape.h"

namespace ingot {

/// What an allocation is for, so that a memory report can say what fills the device.
enum class MemoryTag : std::uint8_t { other, parameter, gradient, optimizer, activation, kv_cache, data };
inline constexpr std::size_t kMemoryTags = 7;
std::string_view name(MemoryTag tag);

/// Allocations of this thread have `tag` until the scope ends.
class MemoryTagScope {
 public:
  explicit MemoryTagScope(MemoryTag tag);
  ~MemoryTagScope();
  MemoryTagScope(const MemoryTagScope&) = delete;
  MemoryTagScope& operator=(const MemoryTagScope&) = delete;

 private:
  MemoryTag previous_;
};
MemoryTag current_memory_tag();

/// Counts bytes in use, by tag, and refuses what would pass a limit. Every call is atomic: two threads can
/// never both take the last bytes under the limit.
class MemoryTracker {
 public:
  /// `limit` in bytes; 0: none. Estimates are multiplied by `overhead_factor`.
  explicit MemoryTracker(std::size_t limit = 0, double overhead_factor = 1.1);

  /// Takes `bytes`; throws OutOfMemory, naming `where`, if that passes the limit.
  void allocate(std::size_t bytes, MemoryTag tag = MemoryTag::other, std::string_view where = "memory limit");
  void deallocate(std::size_t bytes, MemoryTag tag = MemoryTag::other);
  /// Whether an estimated size (before overhead) would fit now.
  bool would_fit(std::size_t bytes) const;
  std::size_t estimate_with_overhead(std::size_t bytes) const;

  std::size_t allocated() const { return allocated_.load(std::memory_order_relaxed); }
  std::size_t allocated(MemoryTag tag) const {
    return by_tag_[static_cast<std::size_t>(tag)].load(std::memory_order_relaxed);
  }
  std::size_t peak() const { return peak_.load(std::memory_order_relaxed); }
  std::size_t limit() const { return limit_.load(std::memory_order_relaxed); }
  void set_limit(std::size_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }
  /// The peak starts again from what is in use now.
  void reset_peak();

 private:
  std::atomic<std::size_t> limit_;
  double overhead_factor_;
  std::atomic<std::size_t> allocated_{0};
  std::atomic<std::size_t> peak_{0};
  std::array<std::atomic<std::size_t>, kMemoryTags> by_tag_{};
};

/// Bytes of a contiguous tensor.
std::size_t estimate_tensor_bytes(const Shape& shape, DType dtype);

/// Bytes of one attention layer's activations: Q, K, V and the output, [batch, heads, sequence, head_dim]
/// each, and the [sequence, sequence] scores when `materialised` (Ingot's own kernels never hold them).
std::size_t estimate_attention_bytes(std::int64_t batch, std::int64_t heads, std::int64_t sequence,
                                     std::int64_t head_dim, DType dtype, bool materialised = false);

}  // namespace ingot
