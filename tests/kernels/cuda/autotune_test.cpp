#include "ingot/kernels/cuda/autotune.h"

#include <vector>

#include <gtest/gtest.h>

namespace ingot::kernels::cuda {
namespace {

std::size_t fastest_of(const std::vector<double>& seconds) {
  return fastest(seconds.size(), [&](std::size_t i) { return seconds[i]; });
}

TEST(Autotune, TakesTheFastest) {
  EXPECT_EQ(fastest_of({5}), 0U);
  EXPECT_EQ(fastest_of({5, 4, 3, 3.5}), 2U);
  EXPECT_EQ(fastest_of({5, 4, 3.99, 3.98}), 3U);
}

TEST(Autotune, KeepsTheFirstUnlessAnotherIsClearlyFaster) {
  EXPECT_EQ(fastest_of({5, 4.9, 4.85}), 0U);
  EXPECT_EQ(fastest_of({5, 4.9, 4.8}), 2U);
}

TEST(Autotune, PassesOverWhatFails) {
  EXPECT_EQ(fastest_of({-1, 7, 9}), 1U);
  EXPECT_EQ(fastest_of({5, -1, 6}), 0U);
}

TEST(Autotune, ADisturbedMeasurementDoesNotDecide) {
  int calls = 0;
  const auto seconds = [&](std::size_t i) { return (i == 1 ? 3.0 : 4.0) + (++calls % 3 == 0 ? 10.0 : 0.0); };
  EXPECT_EQ(fastest(2, seconds), 1U);
}

TEST(Autotune, TheFirstRoundDoesNotCount) {
  std::vector<int> runs(2);
  EXPECT_EQ(
      fastest(2, [&](std::size_t i) { return runs[i]++ == 0 ? (i == 0 ? 1.0 : 9.0) : (i == 0 ? 5.0 : 2.0); }),
      1U);
  EXPECT_EQ(runs, (std::vector<int>{5, 5}));
}

}  // namespace
}  // namespace ingot::kernels::cuda
