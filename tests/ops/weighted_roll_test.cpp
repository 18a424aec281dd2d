#include "ingot/ops/weighted_roll.h"

#include <algorithm>
#include <cmath>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::randn;

// A weight's gradient is a sum of 7 · width products, each with a rounded gradient: its error grows with the
// root of their number.
double half_tolerance_of_width(std::int64_t width) {
  return 2e-2 * std::max(1.0, std::sqrt(static_cast<double>(width) / 40));
}

TEST(WeightedRoll, HoldsForWidthsOnAndOffTheVectorLength) {
  for (const std::int64_t width : {1, 16, 33, 160}) {
    for (const std::int64_t count : {1, 5}) {
      check_op({.name = std::to_string(width) + " wide, " + std::to_string(count) + " delays",
                .op = [](std::span<const Tensor> in) { return weighted_roll(in[0], in[1], in[2]); },
                .inputs = {{Shape{3, 7, width}},
                           {.shape = Shape{3, count}, .differentiable = false, .integers_below = 7},
                           {Shape{3, count}}},
                .half_tolerance = half_tolerance_of_width(width)});
    }
  }
}

TEST(WeightedRoll, GoesAroundTheCircle) {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4}, {1, 4, 1});
  const Tensor delays = Tensor::from(std::vector<std::int64_t>{0, 3}, {1, 2});
  const Tensor weights = Tensor::from(std::vector<float>{10, 1}, {1, 2});
  EXPECT_EQ(weighted_roll(x, delays, weights).to_vector<float>(), (std::vector<float>{14, 21, 32, 43}));
}

TEST(WeightedRoll, RefusesADelayThatIsLongerThanTheSeries) {
  const Tensor x = randn({1, 4, 2}, 1), weight = randn({1, 1}, 2);
  const auto delay = [](std::int64_t value) {
    return Tensor::from(std::vector<std::int64_t>{value}, {1, 1});
  };
  EXPECT_THROW(weighted_roll(x, delay(4), weight), DimensionMismatch);
  EXPECT_THROW(weighted_roll(x, delay(-1), weight), DimensionMismatch);
  EXPECT_THROW(weighted_roll(x, delay(0), randn({1, 2}, 3)), ShapeMismatch);
  EXPECT_THROW(weighted_roll(randn({4, 2}, 1), delay(0), weight), DimensionMismatch);
}

TEST(Roll, MovesWhatLeavesAtTheEndToTheFront) {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4}, {4});
  EXPECT_EQ(roll(x, 1).to_vector<float>(), (std::vector<float>{4, 1, 2, 3}));
  EXPECT_EQ(roll(x, -1).to_vector<float>(), (std::vector<float>{2, 3, 4, 1}));
  EXPECT_EQ(roll(x, 9).to_vector<float>(), (std::vector<float>{4, 1, 2, 3}));
  EXPECT_EQ(roll(x, -8).to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(roll(Tensor::zeros({0}), 1).numel(), 0);
  EXPECT_THROW(roll(x, 1, 1), DimensionMismatch);
  for (const int axis : {0, 1, -1}) {
    check_op({.name = "axis " + std::to_string(axis),
              .op = [=](std::span<const Tensor> in) { return roll(in[0], 2, axis); },
              .inputs = {{Shape{3, 4, 5}}}});
  }
}

}  // namespace
}  // namespace ingot
