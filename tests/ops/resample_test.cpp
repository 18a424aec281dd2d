#include "ingot/ops/resample.h"

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::randn;

// Taps of every number on an axis of 5: some positions are read often, one never.
Resampling filter(std::int64_t positions, std::int64_t taps) {
  Resampling how{.positions = positions, .taps = taps};
  for (std::int64_t k = 0; k < taps * positions; ++k) {
    how.indices.push_back(static_cast<std::int32_t>(k * 3 % 4));
    how.weights.push_back(0.3 + 0.1 * static_cast<double>(k % 7));
  }
  return how;
}

TEST(Resample, HoldsOnEveryAxisForEveryNumberOfTaps) {
  for (const std::int64_t taps : {0, 1, 2, 3, 4}) {
    for (const int axis : {0, 1, 2}) {
      for (const std::int64_t positions : {1, 3, 9}) {
        Shape shape{3, 2, 37};
        shape[axis] = 5;
        check_op(
            {.name = "resample to " + std::to_string(positions) + " of " + std::to_string(taps) +
                     " taps, axis " + std::to_string(axis),
             .op = [&](std::span<const Tensor> in) { return resample(in[0], axis, filter(positions, taps)); },
             .inputs = {{shape}}});
      }
    }
  }
}

TEST(Resample, SumsThePositionsThatAreNamed) {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 4, 8}, {1, 4});
  const Resampling how{
      .positions = 3, .taps = 2, .indices = {0, 1, 3, 1, 2, 3}, .weights = {1, 0.5, 1, 1, 0.5, 2}};
  EXPECT_EQ(resample(x, -1, how).to_vector<float>(), (std::vector<float>{3, 3, 24}));
}

TEST(Resample, RefusesWhatDoesNotFit) {
  const Tensor x = randn({2, 3}, 1);
  EXPECT_THROW(resample(x, 2, filter(2, 1)), DimensionMismatch);
  EXPECT_THROW(resample(x, 0, {.positions = 1, .taps = 1, .indices = {2}, .weights = {1}}),
               DimensionMismatch);
  EXPECT_THROW(resample(x, 0, {.positions = 2, .taps = 1, .indices = {1}, .weights = {1}}),
               DimensionMismatch);
}

}  // namespace
}  // namespace ingot
