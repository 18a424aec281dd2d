#include "ingot/kernels/cuda/runtime/allocator.h"

#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulated_gpu/memory.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/rng.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/cuda/runtime/backend.h"
#include "ingot/kernels/cuda/runtime/driver.h"

namespace ingot::kernels::cuda {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(CudaAllocator, GivesAFreedBlockToTheNextOfItsStream) {
  CachingAllocator allocator;
  void* first = allocator.allocate(1000, nullptr);
  allocator.deallocate(first, nullptr);
  EXPECT_EQ(allocator.allocate(900, nullptr), first);
  EXPECT_EQ(allocator.used_bytes(), 1024U);
  EXPECT_EQ(allocator.reserved_bytes(), 2 * kMiB);
  allocator.deallocate(first, nullptr);
}

TEST(CudaAllocator, TakesThePoolAtOnceAndGrowsBySteps) {
  CachingAllocator allocator({.pool_size = 48 * kMiB, .pool_growth = 32 * kMiB});
  std::vector<void*> blocks{allocator.allocate(100, nullptr)};  // small ones have segments of their own
  EXPECT_EQ(allocator.reserved_bytes(), 2 * kMiB);
  for (int i = 0; i < 4; ++i) blocks.push_back(allocator.allocate(12 * kMiB, nullptr));
  EXPECT_EQ(allocator.reserved_bytes(), 50 * kMiB);
  for (int i = 0; i < 2; ++i) blocks.push_back(allocator.allocate(12 * kMiB, nullptr));
  EXPECT_EQ(allocator.reserved_bytes(), 82 * kMiB);
  for (void* block : blocks) allocator.deallocate(block, nullptr);
  allocator.trim();
  EXPECT_EQ(allocator.reserved_bytes(), 0U);
}

TEST(CudaAllocator, TakesWhatABlockNeedsWhereThePoolDoesNotFit) {
  emulation::use_device(0);
  const std::size_t before = emulation::device_memory(), used = before - emulation::free_memory();
  emulation::set_device_memory(used + 50 * kMiB);
  {
    CachingAllocator allocator({.pool_size = 1024 * kMiB});
    void* block = allocator.allocate(30 * kMiB, nullptr);
    EXPECT_NE(block, nullptr);
    EXPECT_EQ(allocator.reserved_bytes(), 30 * kMiB);
    allocator.deallocate(block, nullptr);
  }
  emulation::set_device_memory(before);
}

TEST(CudaAllocator, KeepsStreamsApart) {
  CachingAllocator allocator;
  int other = 0;
  void* first = allocator.allocate(1000, nullptr);
  allocator.deallocate(first, nullptr);
  void* second = allocator.allocate(1000, &other);
  EXPECT_NE(second, first);
  allocator.deallocate(second, &other);
}

TEST(CudaAllocator, JoinsNeighboursAndGivesSegmentsBack) {
  CachingAllocator allocator;
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(allocator.allocate(2 * kMiB, nullptr));
  EXPECT_EQ(allocator.reserved_bytes(), 20 * kMiB);
  for (const int i : {1, 3, 2, 0, 7, 5, 6, 4})
    allocator.deallocate(blocks[static_cast<std::size_t>(i)], nullptr);
  EXPECT_EQ(allocator.used_bytes(), 0U);
  void* whole = allocator.allocate(19 * kMiB, nullptr);  // in the very segment, or reserved_bytes would grow
  EXPECT_EQ(allocator.reserved_bytes(), 20 * kMiB);
  allocator.deallocate(whole, nullptr);
  allocator.trim();
  EXPECT_EQ(allocator.reserved_bytes(), 0U);
}

TEST(CudaAllocator, NeverOverlapsBlocksInUse) {
  CachingAllocator allocator;
  Rng rng(7);
  struct Live {
    std::uintptr_t begin, end;
  };
  std::vector<Live> live;
  for (int i = 0; i < 1000; ++i) {
    if (!live.empty() && rng.below(2) == 0) {
      const auto at = static_cast<std::size_t>(rng.below(live.size()));
      allocator.deallocate(reinterpret_cast<void*>(live[at].begin), nullptr);
      live[at] = live.back();
      live.pop_back();
      continue;
    }
    const std::size_t bytes = rng.below(16) == 0 ? rng.below(15 * kMiB) : rng.below(100000);
    const auto begin = reinterpret_cast<std::uintptr_t>(allocator.allocate(bytes, nullptr));
    if (begin == 0) continue;
    EXPECT_EQ(begin % 256, 0U);
    for (const Live& other : live) EXPECT_TRUE(begin >= other.end || begin + bytes <= other.begin);
    live.push_back({begin, begin + bytes});
  }
  for (const Live& block : live) allocator.deallocate(reinterpret_cast<void*>(block.begin), nullptr);
  allocator.trim();
  EXPECT_EQ(allocator.reserved_bytes(), 0U);
}

TEST(CudaAllocator, GivesUnusedSegmentsBackBeforeItFails) {
  emulation::use_device(0);
  const std::size_t before = emulation::device_memory(), used = before - emulation::free_memory();
  emulation::set_device_memory(used + 50 * kMiB);
  {
    CachingAllocator allocator;
    allocator.deallocate(allocator.allocate(30 * kMiB, nullptr), nullptr);
    void* larger = allocator.allocate(40 * kMiB, nullptr);
    EXPECT_NE(larger, nullptr);
    EXPECT_EQ(allocator.allocate(20 * kMiB, nullptr), nullptr);
    allocator.deallocate(larger, nullptr);
  }
  emulation::set_device_memory(before);
}

// A stream that records has done nothing that would have to be waited for, and its events cannot be.
TEST(CudaAllocator, TakesMemoryOfOthersBackWhileAStreamRecords) {
  CachingAllocator allocator;
  void* stream = driver::create_stream();
  void* foreign = allocator.allocate(1000, nullptr);
  allocator.hold(stream);
  driver::begin_capture(stream);
  allocator.deallocate(foreign, stream);
  void* mine = allocator.allocate(1000, stream);
  EXPECT_NE(mine, foreign);
  EXPECT_EQ(allocator.allocate(1000, nullptr), foreign);
  allocator.deallocate(foreign, nullptr);
  allocator.deallocate(mine, stream);
  driver::abandon_capture(stream);
  allocator.drop(stream);
  driver::destroy_stream(stream);
}

TEST(CudaBackend, SaysWhatFillsTheDevice) {
  emulation::use_device(0);
  const std::size_t before = emulation::device_memory(), used = before - emulation::free_memory();
  emulation::set_device_memory(used + 64 * kMiB);
  const auto made = make_cuda_backend(0);
  void* weights = made->allocate(40 * kMiB, MemoryTag::parameter);
  const std::string message =
      test::message_of<OutOfMemory>([&] { made->allocate(60 * kMiB, MemoryTag::activation); });
  EXPECT_NE(message.find("parameters hold 40.0 MiB"), std::string::npos) << message;
  EXPECT_NE(message.find("62914560 bytes were asked for"), std::string::npos) << message;
  made->deallocate(weights, 40 * kMiB, MemoryTag::parameter);
  EXPECT_EQ(made->memory().allocated(), 0U);
  made->shutdown();
  emulation::set_device_memory(before);
}

}  // namespace
}  // namespace ingot::kernels::cuda
