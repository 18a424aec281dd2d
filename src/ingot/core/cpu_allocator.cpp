#include "ingot/core/cpu_allocator.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>

namespace ingot {
namespace {

constexpr std::size_t kSmallest = 64;
// AddressSanitizer ends a process that asks for a TiB.
constexpr std::size_t kMost = CpuAllocator::kKeeps ? BlockPool::kMost : std::size_t{1} << 39;

// Classes are 2^e * (1 + s/8), s in 0..7: index 8e + s. The size is the smallest such that holds `bytes`.
std::size_t class_of(std::size_t bytes) {
  const std::size_t size = bytes < kSmallest ? kSmallest : bytes;
  const auto exponent = static_cast<std::size_t>(std::bit_width(size - 1) - 1);  // 2^exponent < size
  const std::size_t step = (std::size_t{1} << exponent) / 8;
  const std::size_t eighth = (size - (std::size_t{1} << exponent) + step - 1) / step;  // 1..8
  return exponent * 8 + eighth;
}

std::size_t size_of_class(std::size_t index) {
  const std::size_t exponent = index / 8;
  return (std::size_t{1} << exponent) + (index % 8) * ((std::size_t{1} << exponent) / 8);
}

std::size_t in_whole(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

void* take_from_system(std::size_t size) { return std::aligned_alloc(kSmallest, in_whole(size, kSmallest)); }

}  // namespace

void* CpuAllocator::allocate(std::size_t bytes) {
  if (bytes > kMost) return nullptr;
  if (!kKeeps) return take_from_system(std::max(bytes, kSmallest));
  return bytes >= kPooledFrom ? allocate_large(BlockPool::size_of(bytes)) : allocate_small(bytes);
}

void* CpuAllocator::allocate_large(std::size_t size) {
  const std::lock_guard lock(mutex_);
  void* data = large_.allocate(size);
  if (data == nullptr) {
    give_back();
    data = large_.allocate(size);
  }
  if (data == nullptr) return nullptr;
  used_ += size;
  most_used_ = std::max(most_used_, used_);
  return data;
}

void* CpuAllocator::allocate_small(std::size_t bytes) {
  const std::size_t index = class_of(bytes), size = size_of_class(index);
  const std::lock_guard lock(mutex_);
  asked_[index] = ++allocations_;
  used_ += size;
  most_used_ = std::max(most_used_, used_);
  auto& list = free_[index];
  if (!list.empty()) {
    void* data = list.back();
    list.pop_back();
    cached_ -= size;
    return data;
  }
  make_room();
  void* data = take_from_system(size);
  if (data == nullptr) {
    give_back();
    data = take_from_system(size);
  }
  if (data == nullptr) used_ -= size;
  return data;
}

// Before memory is taken from the system, with the lock held.
void CpuAllocator::make_room() noexcept {
  while (cached_ > 0 && used_ + cached_ > 2 * most_used_ + kSpare) {
    std::size_t oldest = kClasses;
    for (std::size_t index = 0; index < kClasses; ++index)
      if (!free_[index].empty() && (oldest == kClasses || asked_[index] < asked_[oldest])) oldest = index;
    std::free(free_[oldest].back());
    free_[oldest].pop_back();
    cached_ -= size_of_class(oldest);
  }
}

void CpuAllocator::deallocate(void* data, std::size_t bytes) noexcept {
  if (!kKeeps) return std::free(data);
  const std::lock_guard lock(mutex_);
  if (bytes >= kPooledFrom) {
    const std::size_t size = BlockPool::size_of(bytes);
    used_ -= size;
    large_.deallocate(data, size);
    return;
  }
  const std::size_t index = class_of(bytes);
  used_ -= size_of_class(index);
  try {
    free_[index].push_back(data);
    cached_ += size_of_class(index);
  } catch (...) {  // no memory for the list itself
    std::free(data);
  }
}

void CpuAllocator::trim() noexcept {
  const std::lock_guard lock(mutex_);
  give_back();
}

// With the lock held.
void CpuAllocator::give_back() noexcept {
  for (std::vector<void*>& list : free_) {
    for (void* data : list) std::free(data);
    list.clear();
  }
  cached_ = 0;
  large_.trim();
}

std::size_t CpuAllocator::cached_bytes() const {
  const std::lock_guard lock(mutex_);
  return cached_ + large_.free_bytes();
}

}  // namespace ingot
