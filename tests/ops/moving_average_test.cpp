#include "ingot/ops/moving_average.h"

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"

namespace ingot {
namespace {

using testing::check_op;

TEST(MovingAverage, HoldsForEveryAxisAndWindow) {
  for (const std::int64_t window : {1, 2, 5, 24, 25}) {  // shorter and longer than the axis, even and odd
    for (const int axis : {0, 1, -1}) {
      for (const bool transposed : {false, true}) {
        check_op({.name = "window " + std::to_string(window) + ", axis " + std::to_string(axis),
                  .op =
                      [=](std::span<const Tensor> in) {
                        return transposed ? moving_average_transposed(in[0], window, axis)
                                          : moving_average(in[0], window, axis);
                      },
                  .inputs = {{Shape{7, 9, 3}}}});
      }
    }
  }
  check_op({.name = "more columns than are worked on together",
            .op = [](std::span<const Tensor> in) { return moving_average(in[0], 5, 1); },
            .inputs = {{Shape{2, 6, 131}}}});
  for (const bool transposed : {false, true}) {
    check_op({.name = "whole vectors of columns",
              .op =
                  [=](std::span<const Tensor> in) {
                    return transposed ? moving_average_transposed(in[0], 5, 1) : moving_average(in[0], 5, 1);
                  },
              .inputs = {{Shape{2, 6, 16}}}});
  }
}

TEST(MovingAverage, RepeatsTheEnds) {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 6, 4}, {4});
  EXPECT_EQ(moving_average(x, 3).to_vector<float>(), (std::vector<float>{4 / 3.0F, 3, 4, 14 / 3.0F}));
  // An even window reaches one position further back than forward.
  EXPECT_EQ(moving_average(x, 2).to_vector<float>(), (std::vector<float>{1, 1.5F, 4, 5}));
}

TEST(MovingAverage, TransposedIsTheAdjoint) {
  const Tensor x = testing::randn({5, 40}, 1, DType::f64), y = testing::randn({5, 40}, 2, DType::f64);
  for (const std::int64_t window : {2, 25, 100}) {
    EXPECT_NEAR(sum(moving_average(x, window) * y).item(),
                sum(x * moving_average_transposed(y, window)).item(), 1e-10);
  }
}

TEST(MovingAverage, RefusesAWindowOfNothingAndAnAxisThatIsNotThere) {
  EXPECT_THROW(moving_average(testing::randn({4}, 1), 0), InvalidConfig);
  EXPECT_THROW(moving_average(testing::randn({4}, 1), 3, 1), DimensionMismatch);
}

}  // namespace
}  // namespace ingot
