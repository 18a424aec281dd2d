#include "ingot/kernels/cuda/runtime/allocator.h"

#include <algorithm>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/kernels/cuda/runtime/driver.h"

namespace ingot::kernels::cuda {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kSmallest = 256;  // the driver's alignment; also what an empty tensor gets
constexpr std::size_t kSmall = kMiB;    // blocks up to this share segments of kSmallSegment
constexpr std::size_t kSmallSegment = 2 * kMiB;
constexpr std::size_t kLarge = 10 * kMiB;  // blocks from this on have segments of their own
constexpr std::size_t kLargeSegment = 20 * kMiB;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

std::size_t segment_size(std::size_t block) {
  if (block <= kSmall) return kSmallSegment;
  return block < kLarge ? kLargeSegment : round_up(block, kSmallSegment);
}

}  // namespace

CachingAllocator::~CachingAllocator() { trim(); }

std::size_t CachingAllocator::rounded(std::size_t bytes) const {
  if (!options_.caching) return std::max<std::size_t>(bytes, 1);
  return round_up(std::max(bytes, kSmallest), options_.granularity);
}

void* CachingAllocator::allocate(std::size_t bytes, void* stream) {
  const std::lock_guard lock(mutex_);
  const std::size_t size = rounded(bytes);
  collect(false);
  Block* block = nullptr;
  FreeBlocks& free = free_[stream];
  Block wanted{.size = size};
  const auto found = free.lower_bound(&wanted);
  // A large block is not broken for a small one: the segment could never be given back.
  if (found != free.end() && (size > kSmall || (*found)->size <= kSmallSegment)) {
    block = *found;
    free.erase(found);
  } else {
    block = new_segment(size, stream);
    if (block == nullptr) return nullptr;
  }
  split(block, size);
  block->used = true;
  used_ += block->size;
  return block->data;
}

// What to take for a segment of so many bytes.
std::size_t CachingAllocator::pooled(std::size_t segment) {
  if (!options_.caching || segment <= kSmallSegment) return segment;
  const std::size_t least = std::max(std::exchange(options_.pool_size, 0), options_.pool_growth);
  return std::max(segment, round_up(least, kSmallSegment));
}

CachingAllocator::Block* CachingAllocator::new_segment(std::size_t size, void* stream) {
  const std::size_t needed = options_.caching ? segment_size(size) : size;
  std::size_t bytes = pooled(needed);
  void* data = driver::allocate(bytes);
  if (data == nullptr) {
    bytes = needed;
    collect(true);
    give_back_segments();
    data = driver::allocate(bytes);
  }
  if (data == nullptr) return nullptr;
  reserved_ += bytes;
  auto block =
      std::make_unique<Block>(Block{.data = static_cast<char*>(data), .size = bytes, .stream = stream});
  return (blocks_[data] = std::move(block)).get();
}

// What is left of a block beyond `size` becomes a free block, where it is worth one.
void CachingAllocator::split(Block* block, std::size_t size) {
  const std::size_t rest = block->size - size;
  if (rest < (size <= kSmall ? options_.granularity : kSmall) || rest == 0) return;
  auto made = std::make_unique<Block>(Block{.data = block->data + size,
                                            .size = rest,
                                            .stream = block->stream,
                                            .before = block,
                                            .after = block->after});
  if (block->after != nullptr) block->after->before = made.get();
  block->after = made.get();
  block->size = size;
  free_[block->stream].insert(made.get());
  blocks_[made->data] = std::move(made);
}

void CachingAllocator::deallocate(void* data, void* stream) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(data);
  INGOT_ASSERT(found != blocks_.end() && found->second->used);
  Block* block = found->second.get();
  if (stream == block->stream || held_.contains(stream)) {
    release(block);
    return;
  }
  try {
    void* event = driver::create_event();
    driver::record(event, stream);
    waiting_.push_back({block, event});
  } catch (const Error&) {
    // The device is lost: keep the block, the error shows at the next synchronization.
  }
}

void CachingAllocator::release(Block* block) {
  used_ -= block->size;
  block->used = false;
  block = merged(block);
  const auto held = held_.find(block->stream);
  if (options_.caching) {
    free_[block->stream].insert(block);
  } else if (held != held_.end()) {
    held->second.push_back(block);
  } else {
    give_back(block);
  }
}

void CachingAllocator::give_back(Block* block) {
  reserved_ -= block->size;
  driver::deallocate(block->data);
  blocks_.erase(block->data);
}

void CachingAllocator::hold(void* stream) {
  const std::lock_guard lock(mutex_);
  held_[stream];
}

void CachingAllocator::drop(void* stream) noexcept {
  const std::lock_guard lock(mutex_);
  const auto held = held_.find(stream);
  if (held == held_.end()) return;
  for (Block* block : held->second) give_back(block);
  held_.erase(held);
}

// The block merged with its free neighbours, which leave their lists.
CachingAllocator::Block* CachingAllocator::merged(Block* block) {
  const auto join = [this](Block* first, Block* second) {
    first->size += second->size;
    first->after = second->after;
    if (second->after != nullptr) second->after->before = first;
    blocks_.erase(second->data);
    return first;
  };
  if (Block* after = block->after; after != nullptr && !after->used) {
    free_[after->stream].erase(after);
    block = join(block, after);
  }
  if (Block* before = block->before; before != nullptr && !before->used) {
    free_[before->stream].erase(before);
    block = join(before, block);
  }
  return block;
}

// Frees the blocks whose last use on another stream is over.
void CachingAllocator::collect(bool wait) {
  for (std::size_t i = 0; i < waiting_.size();) {
    const Waiting entry = waiting_[i];
    if (wait) driver::wait_for(entry.event);
    if (!driver::done(entry.event)) {
      ++i;
      continue;
    }
    waiting_[i] = waiting_.back();
    waiting_.pop_back();
    driver::destroy_event(entry.event);
    release(entry.block);
  }
}

void CachingAllocator::give_back_segments() {
  for (auto& [stream, blocks] : free_) {
    if (held_.contains(stream)) continue;
    std::erase_if(blocks, [this](Block* block) {
      if (block->before != nullptr || block->after != nullptr) return false;
      give_back(block);
      return true;
    });
  }
}

void CachingAllocator::trim() noexcept {
  const std::lock_guard lock(mutex_);
  try {
    collect(true);
  } catch (const Error&) {
    // Blocks that wait for a lost device stay where they are.
  }
  give_back_segments();
}

std::size_t CachingAllocator::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

std::size_t CachingAllocator::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace ingot::kernels::cuda
