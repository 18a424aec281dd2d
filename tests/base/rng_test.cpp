#include "ingot/base/rng.h"

#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/base/random_seed.h"

namespace ingot {
namespace {

// Known answers of Random123's philox4x32-10 (kat_vectors).
TEST(Philox, MatchesThePublishedKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, ResumesFromItsPosition) {
  Rng rng(7);
  for (int i = 0; i < 13; ++i) rng.next_u32();
  Rng resumed(rng.key(), rng.position());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rng.next_u32(), resumed.next_u32());
}

TEST(Rng, BelowStaysInRangeAndReachesEveryValue) {
  Rng rng(1);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t draw = rng.below(7);
    ASSERT_LT(draw, 7U);
    seen.insert(draw);
  }
  EXPECT_EQ(seen.size(), 7U);
}

TEST(Rng, NormalHasMeanZeroAndVarianceOne) {
  Rng rng(3);
  double sum = 0, squares = 0;
  const int n = 100000;
  for (int i = 0; i < n; ++i) {
    const double x = rng.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0.0, 0.02);  // standard error 0.003
  EXPECT_NEAR(squares / n, 1.0, 0.03);
}

TEST(RandomSeed, ThreadsThatAskAtOnceAllGetOthers) {
  constexpr std::size_t kThreads = 4, kEach = 5000;
  std::vector<std::vector<std::uint64_t>> drawn(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (auto& mine : drawn)
    threads.emplace_back([&mine] {
      for (std::size_t i = 0; i < kEach; ++i) mine.push_back(random_seed());
    });
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint64_t> all;
  std::uint64_t ones = 0, zeros = 0;
  for (const auto& mine : drawn) {
    for (const std::uint64_t seed : mine) {
      all.insert(seed);
      ones |= seed;
      zeros |= ~seed;
    }
  }
  EXPECT_EQ(all.size(), kThreads * kEach);
  EXPECT_EQ(ones & zeros, ~std::uint64_t{0});  // every bit has been both
}

}  // namespace
}  // namespace ingot
