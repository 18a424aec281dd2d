#include "ingot/ops/reduce.h"

#include <cfloat>
#include <cmath>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/kernels/kernel.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::max_error;
using testing::randn;

struct Case {
  Shape shape;
  Axes axes;
};

const Case kCases[] = {{{}, {}},         {{1}, {0}},          {{7}, {}},
                       {{3, 33}, {-1}},  {{33, 3}, {0}},      {{2, 3, 5}, {}},
                       {{2, 3, 5}, {1}}, {{2, 3, 5}, {0, 2}}, {{2, 3, 5}, {0, 1}}};

using Reduction = Tensor (*)(const Tensor&, const Axes&, bool);

TEST(Reduce, HoldsForEveryReductionAndAxes) {
  const std::pair<const char*, Reduction> reductions[] = {
      {"sum", sum}, {"mean", mean}, {"max", max}, {"min", min}};
  for (const auto& [name, reduction] : reductions) {
    for (const Case& c : kCases) {
      for (const bool keepdim : {false, true}) {
        const auto op = [&, keepdim](std::span<const Tensor> in) {
          return reduction(in[0], c.axes, keepdim);
        };
        check_op({.name = std::string(name) + to_string(c.shape) + (keepdim ? " keepdim" : ""),
                  .op = op,
                  .inputs = {{c.shape}}});
      }
      if (c.shape.rank() < 2) continue;
      const auto strided = [&](std::span<const Tensor> in) {
        return reduction(transpose(in[0], 0, -1), c.axes, false);
      };
      check_op({.name = std::string(name) + to_string(c.shape) + " transposed",
                .op = strided,
                .inputs = {{c.shape}}});
    }
  }
}

TEST(Reduce, VarHolds) {
  for (const Case& c : {Case{{5}, {}}, Case{{3, 7}, {-1}}, Case{{4, 2, 3}, {0, 2}}}) {
    check_op({.name = to_string(c.shape),
              .op = [&](std::span<const Tensor> in) { return var(in[0], c.axes); },
              .inputs = {{c.shape}},
              .f32_tolerance = 5e-5,
              .half_tolerance = 6e-2});
  }
  EXPECT_THROW(var(randn({3, 1}, 1), {1}), DimensionMismatch);
}

TEST(Reduce, ShapesAreWhatKeepdimSays) {
  const Tensor x = randn({2, 3, 5}, 1);
  EXPECT_EQ(sum(x, {1}).shape(), Shape({2, 5}));
  EXPECT_EQ(sum(x, {1}, true).shape(), Shape({2, 1, 5}));
  EXPECT_EQ(sum(x).shape(), Shape({}));
}

TEST(Reduce, OfNothingIsZeroOrAnError) {
  EXPECT_EQ(sum(randn({0, 3}, 1), {0}).to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(sum(randn({2, 0}, 1), {1}).to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(sum(randn({0}, 1)).item(), 0);
  EXPECT_THROW(max(randn({0, 3}, 1), {0}), DimensionMismatch);
  EXPECT_THROW(mean(randn({0}, 1)), DimensionMismatch);
}

TEST(Reduce, RefusesAnAxisTwiceOrOutside) {
  EXPECT_THROW(sum(randn({2, 3}, 1), {1, -1}), DimensionMismatch);
  EXPECT_THROW(sum(randn({2, 3}, 1), {2}), DimensionMismatch);
}

TEST(Reduce, AMillionElementsKeepTheirDigits) {
  // 0.1 a million times: added one by one in f32 this gives 100958, an error of one per cent.
  const Tensor x = Tensor::from(std::vector<float>(1000000, 0.1F), {1000000});
  EXPECT_NEAR(sum(x).item(), 100000.0, 0.02);
  const Tensor columns = sum(reshape(x, {500000, 2}), {0});
  EXPECT_NEAR(columns.data<float>()[0], 50000.0, 0.01);
  const Tensor wide = sum(reshape(x, {500, 2000}), {0});
  EXPECT_NEAR(wide.data<float>()[1999], 50.0, 1e-5);
}

TEST(Reduce, LargeShapesAgreeWithTheReference) {
  const Case cases[] = {{{300, 700}, {0}}, {{300, 700}, {1}},   {{3, 90000}, {1}},      {{90000, 3}, {0}},
                        {{1, 90000}, {1}}, {{8, 40, 200}, {1}}, {{8, 40, 200}, {0, 2}}, {{2, 50000, 2}, {1}}};
  for (const Case& c : cases) {
    const Tensor x = randn(c.shape, 5);
    for (const auto reduction : {static_cast<Reduction>(sum), static_cast<Reduction>(max)}) {
      const Tensor fast = reduction(x, c.axes, false);
      const kernels::ForceKind reference(kernels::ImplKind::reference);
      const Tensor exact = reduction(x, c.axes, false);
      // What chains of f32 lose, and that sums either side of a halfway point round to neighbours.
      const double tolerance = 2e-5 + FLT_EPSILON * max(abs(exact)).item();
      EXPECT_LE(max_error(fast, exact), tolerance) << to_string(c.shape);
    }
  }
}

TEST(Reduce, ExtremesPassNanOn) {
  std::vector<float> values(100, 1.0F);
  values[37] = NAN;
  values[99] = 5;
  const Tensor x = Tensor::from(values, {2, 50});
  EXPECT_TRUE(std::isnan(max(x).item()));
  EXPECT_TRUE(std::isnan(min(x, {1}).data<float>()[0]));
  EXPECT_EQ(max(x, {1}).data<float>()[1], 5);
  EXPECT_TRUE(std::isnan(max(x, {0}).data<float>()[37]));
}

TEST(Argmax, GivesTheFirstOfEqualsAlongAnyAxis) {
  const Tensor x = Tensor::from(std::vector<float>{1, 5, 5, 7, 2, 7}, {2, 3});
  EXPECT_EQ(argmax(x).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(argmax(x, 0).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0, 1}));
  EXPECT_EQ(argmax(x, 0, true).shape(), Shape({1, 3}));
  const kernels::ForceKind reference(kernels::ImplKind::reference);
  EXPECT_EQ(argmax(x).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0}));
}

TEST(Argmax, GivesTheFirstOfEqualsOfALongRow) {
  Tensor x = randn({50257}, 3);
  auto* values = x.data<float>();
  for (const int at : {50256, 30011, 30010, 17}) {
    values[at] = 9;
    EXPECT_EQ(argmax(x).item(), at);
  }
  values[40000] = NAN;
  values[45000] = NAN;
  EXPECT_EQ(argmax(x).item(), 40000) << "a NaN counts as the largest";
}

TEST(LogSumExp, HoldsAlongEveryAxis) {
  for (const int axis : {0, 1, -1}) {
    for (const bool keepdim : {false, true}) {
      check_op({.name = "axis " + std::to_string(axis),
                .op = [=](std::span<const Tensor> in) { return contiguous(logsumexp(in[0], axis, keepdim)); },
                .inputs = {{Shape{3, 4, 19}}}});
    }
  }
}

TEST(LogSumExp, OfLargeAndOfAbsentValuesIsFinite) {
  const float inf = INFINITY;
  const Tensor x = Tensor::from(std::vector<float>{1000, 1000, -inf, -inf, -inf, 2}, {3, 2});
  const std::vector<float> y = logsumexp(x).to_vector<float>();
  EXPECT_NEAR(y[0], 1000.6931, 1e-3);
  EXPECT_EQ(y[1], -inf);
  EXPECT_EQ(y[2], 2);
}

TEST(Softmax, HoldsForEveryShape) {
  for (const Shape& shape : {Shape{1}, Shape{3, 5}, Shape{2, 3, 67}, Shape{2, 1500}}) {
    if (shape.numel() < 1000) {
      check_op({.name = to_string(shape),
                .op = [](std::span<const Tensor> in) { return softmax(in[0]); },
                .inputs = {{shape}}});
      check_op({.name = "log" + to_string(shape),
                .op = [](std::span<const Tensor> in) { return log_softmax(in[0]); },
                .inputs = {{shape}}});
    }
    const Tensor x = randn(shape, 3);
    const Tensor soft = softmax(x), log_soft = log_softmax(x), half = softmax(to(x, DType::bf16));
    const kernels::ForceKind reference(kernels::ImplKind::reference);
    EXPECT_LE(max_error(soft, softmax(x)), 1e-6);
    EXPECT_LE(max_error(log_soft, log_softmax(x)), 2e-6);
    EXPECT_LE(max_error(half, soft), 1e-2);
  }
}

TEST(Softmax, MaskedAndHugeLogitsAreFinite) {
  const float inf = INFINITY;
  const Tensor x = Tensor::from(std::vector<float>{1e30F, 0, -inf, -inf, 3, 3}, {2, 3});
  EXPECT_EQ(softmax(x).to_vector<float>(), (std::vector<float>{1, 0, 0, 0, 0.5F, 0.5F}));
}

}  // namespace
}  // namespace ingot
