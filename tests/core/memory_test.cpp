#include "ingot/core/memory.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"

namespace ingot {
namespace {

TEST(MemoryTracker, RefusesWhatWouldPassTheLimitAndKeepsTheRest) {
  MemoryTracker tracker(100);
  tracker.allocate(60, MemoryTag::parameter);
  EXPECT_FALSE(tracker.would_fit(40));  // 44 with the overhead of a tenth
  EXPECT_TRUE(tracker.would_fit(36));
  try {
    tracker.allocate(41, MemoryTag::other, "test");
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.requested, 41U);
    EXPECT_EQ(error.in_use, 60U);
    EXPECT_EQ(error.limit, 100U);
  }
  EXPECT_EQ(tracker.allocated(), 60U);
  tracker.allocate(40);
  EXPECT_EQ(tracker.peak(), 100U);
  tracker.deallocate(60, MemoryTag::parameter);
  EXPECT_EQ(tracker.allocated(MemoryTag::parameter), 0U);
  EXPECT_EQ(tracker.allocated(), 40U);
  EXPECT_EQ(tracker.peak(), 100U);
}

// The limit leaves room for exactly half of what the threads try to take.
TEST(MemoryTracker, ThreadsTogetherNeverPassTheLimit) {
  MemoryTracker tracker(4000);
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        try {
          tracker.allocate(1);
          ++taken;
        } catch (const OutOfMemory&) {
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(taken, 4000);
  EXPECT_EQ(tracker.allocated(), 4000U);
}

TEST(MemoryTracker, CountsTensorsByTag) {
  MemoryTracker& tracker = backend(kCpu).memory();
  const std::size_t before = tracker.allocated(MemoryTag::kv_cache);
  {
    const MemoryTagScope tag(MemoryTag::kv_cache);
    const Tensor tensor = Tensor::zeros({1000});
    EXPECT_EQ(tracker.allocated(MemoryTag::kv_cache), before + 4000);
  }
  EXPECT_EQ(tracker.allocated(MemoryTag::kv_cache), before);
}

TEST(Memory, EstimatesCountBytes) {
  EXPECT_EQ(estimate_tensor_bytes({3, 5}, DType::bf16), 30U);
  EXPECT_EQ(estimate_attention_bytes(2, 3, 5, 7, DType::f32), 4U * 4 * 2 * 3 * 5 * 7);
  EXPECT_EQ(estimate_attention_bytes(2, 3, 5, 7, DType::f32, true), 4U * (4 * 2 * 3 * 5 * 7 + 2 * 3 * 5 * 5));
}

TEST(BackendRegistry, FindsTheCpuAndSaysWhatADeviceLacks) {
  EXPECT_TRUE(BackendRegistry::instance().find_best({.dtypes = {DType::f32}}).device().is_cpu());
  try {
    BackendRegistry::instance().find_best({.dtypes = {DType::f8e4m3}, .graph_capture = true});
    FAIL();
  } catch (const DeviceNotAvailable& error) {
    EXPECT_NE(std::string(error.what()).find("f8e4m3"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("graph capture"), std::string::npos);
  }
  EXPECT_THROW(BackendRegistry::instance().get({DeviceType::cuda, 77}), DeviceNotAvailable);
}

}  // namespace
}  // namespace ingot
