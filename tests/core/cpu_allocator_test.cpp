#include "ingot/core/cpu_allocator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ingot {
namespace {

constexpr std::size_t kKiB = std::size_t{1} << 10, kMiB = kKiB << 10;

// Has `count` blocks of a size in use at once.
std::vector<void*> use(CpuAllocator& allocator, std::size_t size, std::size_t count) {
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < count; ++i) blocks.push_back(allocator.allocate(size));
  for (void* block : blocks) allocator.deallocate(block, size);
  return blocks;
}

TEST(CpuAllocator, CachesNoMoreThanTwiceWhatWasInUseAtOnceHoweverSizesVary) {
  if (!CpuAllocator::kKeeps) GTEST_SKIP() << "nothing is kept under AddressSanitizer";
  CpuAllocator allocator;
  std::size_t most = 0;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t eighths = 8; eighths < 28; ++eighths) {
      const std::size_t size = kKiB * eighths / 8;
      use(allocator, size, 16);
      most = std::max(most, 16 * (size + size / 8));
      EXPECT_LE(allocator.cached_bytes(), 2 * most + CpuAllocator::kSpare) << size;
    }
  }
  EXPECT_GE(allocator.cached_bytes(), most);
}

TEST(CpuAllocator, ServesSizesThatComeAgainFromTheCache) {
  if (!CpuAllocator::kKeeps) GTEST_SKIP() << "nothing is kept under AddressSanitizer";
  CpuAllocator allocator;
  const auto round = [&] {
    for (const std::size_t size : {kKiB, kMiB / 2, kMiB, 3 * kMiB, 6 * kMiB}) use(allocator, size, 4);
    return allocator.cached_bytes();
  };
  const std::size_t cached = round();
  EXPECT_GE(cached, 24 * kMiB);
  EXPECT_EQ(round(), cached);
}

// What many small blocks were is one large one, and what one was is many.
TEST(CpuAllocator, FreedMemoryServesLargeBlocksOfAnySize) {
  if (!CpuAllocator::kKeeps) GTEST_SKIP() << "nothing is kept under AddressSanitizer";
  CpuAllocator allocator;
  use(allocator, 3 * kMiB, 16);
  const std::size_t cached = allocator.cached_bytes();
  for (const std::size_t size : {48 * kMiB, kMiB, 17 * kMiB, 100 * kKiB, 5 * kMiB})
    use(allocator, size, 48 * kMiB / size);
  EXPECT_EQ(allocator.cached_bytes(), cached);
  EXPECT_LT(cached, 51 * kMiB);
}

TEST(CpuAllocator, BlocksInUseShareNoByteWhateverIsFreedBetweenThem) {
  CpuAllocator allocator;
  std::mt19937 random(1);
  std::map<unsigned char*, std::size_t> used;
  for (int i = 0; i < 4000; ++i) {
    if (used.size() < 40 && random() % 3 > 0) {
      const std::size_t size = 1 + random() % (random() % 2 == 0 ? kMiB : 200 * kKiB);
      auto* block = static_cast<unsigned char*>(allocator.allocate(size));
      ASSERT_NE(block, nullptr);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U);
      const auto above = used.lower_bound(block);
      ASSERT_TRUE(above == used.end() || block + size <= above->first);
      ASSERT_TRUE(above == used.begin() || std::prev(above)->first + std::prev(above)->second <= block);
      block[0] = block[size - 1] = 1;
      used[block] = size;
    } else if (!used.empty()) {
      const auto one = std::next(used.begin(), static_cast<std::ptrdiff_t>(random() % used.size()));
      allocator.deallocate(one->first, one->second);
      used.erase(one);
    }
    if (i % 500 == 499) allocator.trim();  // beside what is in use
  }
  for (const auto& [block, size] : used) allocator.deallocate(block, size);
  allocator.trim();
  EXPECT_EQ(allocator.cached_bytes(), 0U);
}

TEST(CpuAllocator, HasNoBlockOfASizeThatNoSystemHas) {
  CpuAllocator allocator;
  for (const std::size_t size : {SIZE_MAX, SIZE_MAX - kKiB, SIZE_MAX / 2 + 1, SIZE_MAX / 4})
    EXPECT_EQ(allocator.allocate(size), nullptr) << size;
  EXPECT_EQ(use(allocator, kMiB, 1).size(), 1U) << "and goes on";
}

}  // namespace
}  // namespace ingot
