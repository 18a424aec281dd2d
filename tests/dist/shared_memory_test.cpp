#include "ingot/dist/shared_memory.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "tests/support/thread_ranks.h"
#include <gtest/gtest.h>

namespace ingot::dist {
namespace {

// Of rank `rank` in operation `number`: whole numbers, whose sums are exact.
std::vector<float> values_of(int rank, int number, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((static_cast<std::size_t>(number) * 31 + i * 7) % 1000) +
                1000.0F * static_cast<float>(rank);
  return values;
}

// Elements that are few, none, more than one piece, and a few more than several.
constexpr std::size_t kSizes[] = {1, 576, 0, 65536, 65537, 200001};

class SharedMemoryRanks : public ::testing::TestWithParam<int> {};

TEST_P(SharedMemoryRanks, OperationsInAnyOrderGiveWhatTheyShould) {
  const int ranks = GetParam();
  std::atomic<int> wrong{0};
  test::ThreadRanks threads(ranks);
  threads.run([&](Communicator& base) {
    const auto shared = over_shared_memory(base);
    const int rank = shared->rank();
    for (int number = 0; number < 30; ++number) {
      const std::size_t count = kSizes[static_cast<std::size_t>(number) % std::size(kSizes)];
      std::vector<float> values = values_of(rank, number, count);
      if (number % 4 == 0) {
        shared->all_reduce(values);
        std::vector<float> sums(count);
        for (int other = 0; other < ranks; ++other) {
          const std::vector<float> theirs = values_of(other, number, count);
          for (std::size_t i = 0; i < count; ++i) sums[i] += theirs[i];
        }
        if (values != sums) ++wrong;
      } else if (number % 4 == 1) {
        const int root = number % ranks;
        shared->broadcast(std::as_writable_bytes(std::span(values)), root);
        if (values != values_of(root, number, count)) ++wrong;
      } else if (number % 4 == 2) {
        std::vector<float> all(count * static_cast<std::size_t>(ranks));
        shared->all_gather(std::as_bytes(std::span(values)), std::as_writable_bytes(std::span(all)));
        for (int other = 0; other < ranks; ++other) {
          const std::vector<float> theirs = values_of(other, number, count);
          if (!std::equal(theirs.begin(), theirs.end(),
                          all.begin() + static_cast<std::ptrdiff_t>(count) * other))
            ++wrong;
        }
      } else {
        shared->barrier();
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharedMemoryRanks, ::testing::Values(1, 2, 3, 4));

TEST(SharedMemory, SumsAreInTheOrderOfRanksOnAll) {
  // In f32 (1e8 + 1) − 1e8 is 0, and (1e8 − 1e8) + 1 is 1.
  const std::vector<float> of_rank{1e8F, 1.0F, -1e8F};
  std::vector<float> sums(3);
  test::ThreadRanks threads(3);
  threads.run([&](Communicator& base) {
    const auto shared = over_shared_memory(base);
    float value = of_rank[static_cast<std::size_t>(shared->rank())];
    shared->all_reduce(std::span(&value, 1));
    sums[static_cast<std::size_t>(shared->rank())] = value;
  });
  EXPECT_EQ(sums, (std::vector<float>{0, 0, 0}));
}

TEST(SharedMemory, ARankThatComesLateIsWaitedFor) {
  std::vector<float> sums(2);
  test::ThreadRanks threads(2);
  threads.run([&](Communicator& base) {
    const auto shared = over_shared_memory(base);
    if (shared->rank() == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the other one sleeps
    float value = 1;
    shared->all_reduce(std::span(&value, 1));
    sums[static_cast<std::size_t>(shared->rank())] = value;
  });
  EXPECT_EQ(sums, (std::vector<float>{2, 2}));
}

TEST(SharedMemory, RanksWithoutSharedMemoryHaveNone) {
  const auto alone = dist::alone();
  EXPECT_EQ(over_shared_memory(*alone), nullptr);
}

}  // namespace
}  // namespace ingot::dist
