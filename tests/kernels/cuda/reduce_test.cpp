#include "ingot/ops/reduce.h"

#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/kernels/reduce_axes.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// Reductions of enough elements that blocks share a result, against the CPU's.
namespace ingot {
namespace {

using testing::filled;
using testing::max_error;
using testing::randn;

using test::kDevice;

struct Case {
  Shape shape;
  Axes axes;
  std::int64_t skip = 0;  // elements of the last axis that are left out
};

// Everything, with a rest behind the last vector; rows and columns, few and many, of vectors and not; two
// axes; misaligned views; more rows than the grid has thread groups.
const std::vector<Case> kCases = {{{20000}, {}},          {{20003}, {}},          {{5, 9000}, {1}},
                                  {{5, 9001}, {1}},       {{9001, 5}, {0}},       {{9000, 8}, {0}},
                                  {{700, 264}, {0}},      {{130, 1000}, {0}},     {{3, 2000}, {0}},
                                  {{70, 40, 24}, {0, 1}}, {{24, 5, 600}, {0, 2}}, {{5, 9001}, {1}, 1},
                                  {{700, 265}, {0}, 1},   {{3, 300, 40}, {1}},    {{6, 1032}, {1}},
                                  {{1100, 24}, {1}},      {{270, 1100}, {1}}};

TEST(CudaReduce, OfManyElementsEqualsTheCpu) {
  for (const Case& c : kCases) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const Tensor x = randn(c.shape, 1, dtype);
      const auto part = [&](const Tensor& from) { return slice(from, -1, c.skip); };
      const Tensor there = part(to(x, kDevice)), exact = part(to(x, DType::f64));
      const std::string what = to_string(c.shape) + " " + std::string(name(dtype));
      const double tolerance = dtype == DType::f32 ? 2e-5 : dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
      EXPECT_LE(max_error(to(sum(there, c.axes), kCpu), to(sum(exact, c.axes), dtype)), tolerance) << what;
      EXPECT_LE(max_error(to(mean(there, c.axes), kCpu), to(mean(exact, c.axes), dtype)), tolerance) << what;
      EXPECT_EQ(max_error(to(max(there, c.axes), kCpu), to(max(exact, c.axes), dtype)), 0.0) << what;
      EXPECT_EQ(max_error(to(min(there, c.axes), kCpu), to(min(exact, c.axes), dtype)), 0.0) << what;
    }
  }
}

/// y as a view of x's shape, as a reduction along `axis` takes it.
View repeated_along(const Tensor& y, int axis, const Tensor& x) {
  View view = y.view();
  view.shape = x.view().shape;
  view.strides[static_cast<std::size_t>(axis)] = 0;
  return view;
}

TEST(CudaReduce, WithoutScratchGivesTheSame) {
  for (const Shape& shape : {Shape{1, 9001}, Shape{9001, 1}, Shape{40, 264}}) {
    for (const int axis : {0, 1}) {
      const Tensor x = to(randn(shape, 2), kDevice), expected = sum(x, {axis}, true);
      const Tensor y = Tensor::empty(expected.shape(), DType::f32, kDevice);
      launch(kernels::reduce, current_stream(kDevice), {.x = x.view(), .y = repeated_along(y, axis, x)});
      EXPECT_LE(max_error(y, expected), 1e-5) << to_string(shape) << axis;
    }
  }
}

// A thread without scratch adds more than 1024 elements: their sum is exact in f32 up to there, and no
// further.
TEST(CudaReduce, OfMoreThanAGroupForEachThreadIsExact) {
  const std::int64_t n = 80 * 16384;
  for (const auto& [shape, axis] : {std::pair{Shape{1, n}, 1}, {Shape{n / 4, 4}, 0}}) {
    const Tensor x = to(filled(shape, 1.0F + 0x1p-14F), kDevice);
    const Tensor y = Tensor::empty(axis == 0 ? Shape{1, 4} : Shape{1, 1}, DType::f32, kDevice);
    launch(kernels::reduce, current_stream(kDevice), {.x = x.view(), .y = repeated_along(y, axis, x)});
    for (const float found : to(y, kCpu).to_vector<float>())
      EXPECT_EQ(found, static_cast<float>(shape[axis] / 16384 * 16385)) << axis;
  }
}

// One element that stands for a whole axis is not a vector, neither where that is reduced nor where it is
// kept.
TEST(CudaReduce, OfRepeatedElementsEqualsTheCpu) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = randn({24, 16}, 4, dtype);
    for (const int axis : {0, 1}) {
      const auto run = [&](const Tensor& from) {
        return sum(broadcast_to(slice(from, 1, 3, 4), {24, 40}), {axis});
      };
      EXPECT_LE(max_error(run(to(x, kDevice)), run(x)), dtype == DType::f32 ? 2e-5 : 0x1p-7) << axis;
    }
  }
}

TEST(CudaReduce, OfNothingIsZero) {
  for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}, Shape{0, 0}}) {
    for (const int axis : {0, 1}) {
      const Tensor x = Tensor::zeros(shape, DType::f32, kDevice);
      for (const float found : to(sum(x, {axis}), kCpu).to_vector<float>()) EXPECT_EQ(found, 0.0F);
      EXPECT_EQ(sum(x, {axis}).numel(), shape[1 - axis]);
    }
  }
}

TEST(CudaReduce, ExtremesOfInfinitiesAreInfinite) {
  for (const float value : {INFINITY, -INFINITY}) {
    for (const Shape& shape : {Shape{5, 9}, Shape{2, 9000}}) {
      const Tensor x = to(filled(shape, value), kDevice);
      for (const int axis : {0, 1}) {
        EXPECT_EQ(to(max(x, {axis}), kCpu).to_vector<float>()[0], value) << to_string(shape) << axis;
        EXPECT_EQ(to(min(x, {axis}), kCpu).to_vector<float>()[0], value) << to_string(shape) << axis;
      }
    }
  }
}

TEST(CudaReduce, ExtremesOfManyPartsPassNanOn) {
  for (const std::int64_t at : {0, 777, 19999}) {
    Tensor x = randn({20000}, 3);
    x.data<float>()[at] = NAN;
    EXPECT_TRUE(std::isnan(max(to(x, kDevice)).item()));
    EXPECT_TRUE(std::isnan(
        min(reshape(to(x, kDevice), {4000, 5}), {0}).to_vector<float>()[static_cast<std::size_t>(at % 5)]));
  }
}

}  // namespace
}  // namespace ingot
