#include "ingot/core/cpu_allocator.h"

#include <bit>
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

}  // namespace

void* CpuAllocator::allocate(std::size_t bytes) {
  const std::size_t index = class_of(bytes);
  {
    const std::lock_guard lock(mutex_);
    auto& list = free_[index];
    if (!list.empty()) {
      void* data = list.back();
      list.pop_back();
      cached_ -= size_of_class(index);
      return data;
    }
  }
  const std::size_t size = size_of_class(index);
  const std::size_t alignment = size >= kHugeFrom ? kHugePage : kSmallest;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, rounded);
  if (data == nullptr) {
    trim();
    data = std::aligned_alloc(alignment, rounded);
  }
  if (data != nullptr && size >= kHugeFrom) ::madvise(data, rounded, MADV_HUGEPAGE);
  return data;
}

void CpuAllocator::deallocate(void* data, std::size_t bytes) noexcept {
  const std::size_t index = class_of(bytes);
  const std::lock_guard lock(mutex_);
  try {
    free_[index].push_back(data);
    cached_ += size_of_class(index);
  } catch (...) {  // no memory for the list itself
    std::free(data);
  }
}

void CpuAllocator::trim() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& list : free_) {
    for (void* data : list) std::free(data);
    list.clear();
  }
  cached_ = 0;
}

std::size_t CpuAllocator::cached_bytes() const {
  const std::lock_guard lock(mutex_);
  return cached_;
}

}  // namespace ingot
