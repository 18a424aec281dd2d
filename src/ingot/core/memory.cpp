#include "ingot/core/memory.h"

#include "ingot/base/error.h"

namespace ingot {
namespace {
thread_local MemoryTag current_tag = MemoryTag::other;
constexpr std::array<std::string_view, kMemoryTags> kTagNames{
    "other", "parameters", "gradients", "optimizer", "activations", "kv cache", "data"};
}  // namespace

std::string_view name(MemoryTag tag) { return kTagNames[static_cast<std::size_t>(tag)]; }

MemoryTagScope::MemoryTagScope(MemoryTag tag) : previous_(current_tag) { current_tag = tag; }
MemoryTagScope::~MemoryTagScope() { current_tag = previous_; }
MemoryTag current_memory_tag() { return current_tag; }

MemoryTracker::MemoryTracker(std::size_t limit, double overhead_factor)
    : limit_(limit), overhead_factor_(overhead_factor) {
  INGOT_CHECK(
      overhead_factor >= 1.0,
      InvalidConfig("memory.overhead_factor", "must be at least 1, got " + std::to_string(overhead_factor)));
}

void MemoryTracker::allocate(std::size_t bytes, MemoryTag tag, std::string_view where) {
  const std::size_t limit = limit_.load(std::memory_order_relaxed);
  std::size_t before = allocated_.load(std::memory_order_relaxed);
  do {
    if (limit != 0 && (before > limit || bytes > limit - before))
      throw OutOfMemory(where, bytes, before, limit);
  } while (!allocated_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  by_tag_[static_cast<std::size_t>(tag)].fetch_add(bytes, std::memory_order_relaxed);
  std::size_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < before + bytes &&
         !peak_.compare_exchange_weak(peak, before + bytes, std::memory_order_relaxed)) {
  }
}

void MemoryTracker::deallocate(std::size_t bytes, MemoryTag tag) {
  const std::size_t before = allocated_.fetch_sub(bytes, std::memory_order_relaxed);
  INGOT_ASSERT(before >= bytes);
  by_tag_[static_cast<std::size_t>(tag)].fetch_sub(bytes, std::memory_order_relaxed);
}

bool MemoryTracker::would_fit(std::size_t bytes) const {
  return limit() == 0 || allocated() + estimate_with_overhead(bytes) <= limit();
}

std::size_t MemoryTracker::estimate_with_overhead(std::size_t bytes) const {
  return static_cast<std::size_t>(static_cast<double>(bytes) * overhead_factor_);
}

void MemoryTracker::reset_peak() { peak_.store(allocated(), std::memory_order_relaxed); }

std::size_t estimate_tensor_bytes(const Shape& shape, DType dtype) {
  return static_cast<std::size_t>(shape.numel()) * byte_size(dtype);
}

std::size_t estimate_attention_bytes(std::int64_t batch, std::int64_t heads, std::int64_t sequence,
                                     std::int64_t head_dim, DType dtype, bool materialised) {
  const std::int64_t vectors = 4 * batch * heads * sequence * head_dim;
  const std::int64_t scores = materialised ? batch * heads * sequence * sequence : 0;
  return static_cast<std::size_t>(vectors + scores) * byte_size(dtype);
}

}  // namespace ingot
