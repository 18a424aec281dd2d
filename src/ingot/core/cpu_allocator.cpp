#include "ingot/core/cpu_allocator.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>

#include <sys/mman.h>

namespace ingot {
namespace {

constexpr std::size_t kSmallest = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kHugeFrom = std::size_t{4} << 20;

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

/// Straight from the system: in the heap, aligned blocks leave gaps, which huge pages then fill.
void* map_huge(std::size_t size) {
  const std::size_t more = size + kHugePage;
  void* mapped = ::mmap(nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* start = static_cast<std::byte*>(mapped);
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(start) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(start, before);
  ::munmap(start + before + size, more - before - size);
  ::madvise(start + before, size, MADV_HUGEPAGE);
  return start + before;
}

void* take_from_system(std::size_t size) {
  return size >= kHugeFrom ? map_huge(in_whole(size, kHugePage))
                           : std::aligned_alloc(kSmallest, in_whole(size, kSmallest));
}

void give_to_system(void* data, std::size_t size) noexcept {
  if (size >= kHugeFrom) {
    ::munmap(data, in_whole(size, kHugePage));
  } else {
    std::free(data);
  }
}

}  // namespace

void* CpuAllocator::allocate(std::size_t bytes) {
  const std::size_t index = class_of(bytes), size = size_of_class(index);
  {
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
  }
  void* data = take_from_system(size);
  if (data == nullptr) {
    trim();
    data = take_from_system(size);
  }
  if (data == nullptr) {
    const std::lock_guard lock(mutex_);
    used_ -= size;
  }
  return data;
}

// Before memory is taken from the system, with the lock held.
void CpuAllocator::make_room() noexcept {
  while (cached_ > 0 && used_ + cached_ > 2 * most_used_ + kSpare) {
    std::size_t oldest = kClasses;
    for (std::size_t index = 0; index < kClasses; ++index)
      if (!free_[index].empty() && (oldest == kClasses || asked_[index] < asked_[oldest])) oldest = index;
    give_to_system(free_[oldest].back(), size_of_class(oldest));
    free_[oldest].pop_back();
    cached_ -= size_of_class(oldest);
  }
}

void CpuAllocator::deallocate(void* data, std::size_t bytes) noexcept {
  const std::size_t index = class_of(bytes);
  const std::lock_guard lock(mutex_);
  used_ -= size_of_class(index);
  try {
    free_[index].push_back(data);
    cached_ += size_of_class(index);
  } catch (...) {  // no memory for the list itself
    give_to_system(data, size_of_class(index));
  }
}

void CpuAllocator::trim() noexcept {
  const std::lock_guard lock(mutex_);
  for (std::size_t index = 0; index < free_.size(); ++index) {
    for (void* data : free_[index]) give_to_system(data, size_of_class(index));
    free_[index].clear();
  }
  cached_ = 0;
}

std::size_t CpuAllocator::cached_bytes() const {
  const std::lock_guard lock(mutex_);
  return cached_;
}

}  // namespace ingot
