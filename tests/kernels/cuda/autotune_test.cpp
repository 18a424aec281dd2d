#include "ingot/kernels/cuda/runtime/autotune.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace ingot::kernels::cuda {
namespace {

std::size_t fastest_of(const std::vector<double>& milliseconds) {
  return fastest(milliseconds.size(), [&](std::size_t i, std::int64_t times) {
    return milliseconds[i] * 1e-3 * static_cast<double>(times);
  });
}

TEST(Autotune, TakesTheFastest) {
  EXPECT_EQ(fastest_of({5}), 0U);
  EXPECT_EQ(fastest_of({5, 4, 3, 3.5}), 2U);
  EXPECT_EQ(fastest_of({5, 4, 3.99, 3.98}), 3U);
  EXPECT_EQ(fastest_of({50, 30, 40}), 1U);
  EXPECT_EQ(fastest_of({5e-3, 4e-3, 3e-3}), 2U);
}

TEST(Autotune, KeepsTheFirstUnlessAnotherIsClearlyFaster) {
  EXPECT_EQ(fastest_of({5, 4.9, 4.86}), 0U);
  EXPECT_EQ(fastest_of({5, 4.9, 4.8}), 2U);
}

TEST(Autotune, PassesOverWhatFails) {
  EXPECT_EQ(fastest_of({-1, 7, 9}), 1U);
  EXPECT_EQ(fastest_of({-1, 7, 6.9}), 2U);
  EXPECT_EQ(fastest_of({5, -1, 6}), 0U);
  EXPECT_EQ(fastest_of({-1, -1}), 0U);
}

TEST(Autotune, PassesOverWhatFailsLater) {
  std::vector<int> runs(3);
  EXPECT_EQ(fastest(3,
                    [&](std::size_t i, std::int64_t times) {
                      if (++runs[i] > 4 && i == 1) return -1.0;
                      return std::vector{3e-3, 1e-3, 2e-3}[i] * static_cast<double>(times);
                    }),
            2U);
}

TEST(Autotune, ADisturbedMeasurementDoesNotDecide) {
  for (const int disturbed : {0, 1}) {
    std::vector<int> counted(2);
    EXPECT_EQ(fastest(2,
                      [&](std::size_t i, std::int64_t times) {
                        // Three calls are the trial, two each round: the second round of one is disturbed.
                        const bool now =
                            static_cast<int>(i) == disturbed && ++counted[i] > 5 && counted[i] < 8;
                        return (i == 1 ? 3e-3 : 4e-3) * (now ? 9 : 1) * static_cast<double>(times);
                      }),
              1U)
        << disturbed;
  }
}

/// A GPU at its power limit: its clock goes with what the last milliseconds have cost. Each way of doing the
/// work has its milliseconds at the highest clock, and how much longer it takes when it has been running.
class LimitedGpu {
 public:
  struct Way {
    double milliseconds, slower;
  };
  explicit LimitedGpu(std::vector<Way> ways) : ways_(std::move(ways)) {}

  double seconds(std::size_t i, std::int64_t times) {
    double sum = 0;
    for (std::int64_t n = 0; n < times; ++n) {
      const double once = ways_[i].milliseconds * slower_;
      sum += once;
      slower_ += (ways_[i].slower - slower_) * (1 - std::exp(-once / kReactsIn));
    }
    busy_ += sum;
    return sum * 1e-3;
  }
  double busy_seconds() const { return busy_ * 1e-3; }
  double slower() const { return slower_; }

 private:
  static constexpr double kReactsIn = 5;  // milliseconds
  std::vector<Way> ways_;
  double slower_ = 1, busy_ = 0;
};

std::size_t fastest_on(LimitedGpu& gpu, std::size_t ways) {
  return fastest(ways, [&](std::size_t i, std::int64_t times) { return gpu.seconds(i, times); });
}

TEST(Autotune, AWayThatIsFastOnlyForMillisecondsIsNotTaken) {
  const std::vector<LimitedGpu::Way> ways{{1.4, 1.1}, {1.3, 1.4}, {1.35, 1.3}};
  const auto alone = [&](std::size_t i, std::int64_t times) { return LimitedGpu(ways).seconds(i, times); };
  ASSERT_LT(alone(1, 1), 0.97 * alone(0, 1));
  ASSERT_GT(alone(1, 1000), alone(0, 1000));
  LimitedGpu gpu(ways);
  EXPECT_EQ(fastest_on(gpu, 3), 0U);
}

TEST(Autotune, AWayThatIsFasterInTheLongRunIsTaken) {
  const std::vector<LimitedGpu::Way> ways{{1.3, 1.4}, {1.4, 1.1}};
  const auto alone = [&](std::size_t i, std::int64_t times) { return LimitedGpu(ways).seconds(i, times); };
  ASSERT_GT(alone(1, 1), alone(0, 1));
  LimitedGpu gpu(ways);
  EXPECT_EQ(fastest_on(gpu, 2), 1U);
}

TEST(Autotune, TakesHalfASecondAtMostForWhatTakesUpToTwentyMilliseconds) {
  for (const double milliseconds : {1e-3, 0.1, 1.4, 5.0, 12.0, 20.0}) {
    LimitedGpu gpu(std::vector<LimitedGpu::Way>(8, {milliseconds, 1.0}));
    fastest_on(gpu, 8);
    EXPECT_LT(gpu.busy_seconds(), 0.57) << milliseconds;
  }
}

}  // namespace
}  // namespace ingot::kernels::cuda
