#include "ingot/ops/batch_norm.h"

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::max_error;

TEST(BatchNorm, HoldsForEveryShapeInTrainingAndOutside) {
  const auto training = [](std::span<const Tensor> in) { return batch_norm(in[0], in[1], in[2], {}, {}); };
  const auto fixed = [](std::span<const Tensor> in) {
    return batch_norm(in[0], in[1], in[2], in[3], in[4], {.training = false});
  };
  const auto positive = [](double x) { return 0.5 + x * x; };
  // Beyond three axes: more samples than are summed at a time, channels and positions beyond a vector.
  for (const Shape& shape :
       {Shape{5, 3}, Shape{4, 3, 7}, Shape{3, 2, 4, 5}, Shape{67, 19}, Shape{2, 3, 37}}) {
    const Shape channels{shape[1]};
    check_op({.name = to_string(shape),
              .op = training,
              .inputs = {{shape}, {channels}, {channels}},
              .half_tolerance = 4e-2});
    check_op({.name = to_string(shape) + " fixed",
              .op = fixed,
              .inputs = {{shape},
                         {channels},
                         {channels},
                         {.shape = channels, .differentiable = false},
                         {.shape = channels, .differentiable = false, .values = positive}},
              .half_tolerance = 8e-2});  // roundings of 2^-8 add up along the chain of operations
  }
}

// torch.nn.BatchNorm1d(2) on [[1, 10], [3, 30], [5, 20]]: means 3 and 20; variances 8/3 and 200/3, unbiased 4
// and 100.
TEST(BatchNorm, MovesTheRunningStatisticsAsPytorchDoes) {
  const Tensor x = Tensor::from<float>({1, 10, 3, 30, 5, 20}, {3, 2});
  const Tensor mean = Tensor::zeros({2}), variance = Tensor::from<float>({1, 1}, {2});
  const Tensor y = batch_norm(x, {}, {}, mean, variance);
  EXPECT_LE(max_error(mean, Tensor::from<float>({0.3F, 2.0F}, {2})), 1e-6);
  EXPECT_LE(max_error(variance, Tensor::from<float>({1.3F, 10.9F}, {2})), 1e-6);
  EXPECT_LE(
      max_error(y, Tensor::from<float>({-1.2247426F, -1.2247448F, 0, 1.2247448F, 1.2247426F, 0}, {3, 2})),
      1e-6);
}

// A mean of 200.33 rounded to bf16 would be 200, and results off by 0.35.
TEST(BatchNorm, StatisticsOfHalfTypesAreNotRounded) {
  const Tensor x = Tensor::from<double>({199, 200, 200, 201, 200, 202}, {6, 1});
  const Tensor expected = batch_norm(x, {}, {}, {}, {});
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor y = batch_norm(to(x, dtype), {}, {}, {}, {});
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_LE(max_error(y, expected), 4e-3) << name(dtype);
  }
}

TEST(BatchNorm, RefusesWhatCannotBeNormalized) {
  const Tensor x = testing::randn({1, 3}, 1);
  EXPECT_THROW(batch_norm(x, {}, {}, {}, {}), DimensionMismatch);
  EXPECT_THROW(batch_norm(x, {}, {}, {}, {}, {.training = false}), Error);
  EXPECT_THROW(batch_norm(testing::randn({4, 3}, 1), Tensor::zeros({2}), {}, {}, {}), ShapeMismatch);
  EXPECT_THROW(batch_norm(testing::randn({4}, 1), {}, {}, {}, {}), DimensionMismatch);
  EXPECT_THROW(batch_norm(testing::randn({4, 3}, 1), {}, {}, {}, {}, {.momentum = 2}), InvalidConfig);
}

}  // namespace
}  // namespace ingot
