#include "ingot/core/cpu_allocator.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

namespace ingot {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Has `count` blocks of a size in use at once.
std::vector<void*> use(CpuAllocator& allocator, std::size_t size, std::size_t count) {
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < count; ++i) blocks.push_back(allocator.allocate(size));
  for (void* block : blocks) allocator.deallocate(block, size);
  return blocks;
}

TEST(CpuAllocator, CachesNoMoreThanTwiceWhatWasInUseAtOnceHoweverSizesVary) {
  CpuAllocator allocator;
  std::size_t most = 0;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t eighths = 8; eighths < 28; ++eighths) {
      const std::size_t size = kMiB * eighths / 8;
      use(allocator, size, 16);
      most = std::max(most, 16 * (size + size / 8));
      EXPECT_LE(allocator.cached_bytes(), 2 * most + CpuAllocator::kSpare) << size;
    }
  }
  EXPECT_GE(allocator.cached_bytes(), most);
}

TEST(CpuAllocator, GivesBlocksOfTheSizesThatWereAskedForLongestAgoBackFirst) {
  CpuAllocator allocator;
  std::vector<void*> kept = use(allocator, kMiB, 4);
  for (std::size_t eighths = 9; eighths < 32; ++eighths) {
    use(allocator, kMiB * eighths / 8, 16);
    std::vector<void*> again = use(allocator, kMiB, 4);
    std::ranges::sort(kept);
    std::ranges::sort(again);
    EXPECT_EQ(again, kept) << eighths;
  }
}

TEST(CpuAllocator, ServesSizesThatComeAgainFromTheCache) {
  CpuAllocator allocator;
  const auto round = [&] {
    for (const std::size_t size : {kMiB / 2, kMiB, 3 * kMiB, 6 * kMiB}) use(allocator, size, 4);
    return allocator.cached_bytes();
  };
  const std::size_t cached = round();
  EXPECT_GE(cached, 42 * kMiB);
  EXPECT_EQ(round(), cached);
  allocator.trim();
  EXPECT_EQ(allocator.cached_bytes(), 0U);
}

}  // namespace
}  // namespace ingot
