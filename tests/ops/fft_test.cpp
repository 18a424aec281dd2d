#include "ingot/ops/fft.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::max_error;
using testing::randn;

// Lengths with a code of their own, products of these, other primes, and primes too large for a pass.
constexpr std::int64_t kLengths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 25, 30, 48, 49, 61, 67, 96, 134};

// A rounding error of the incoming gradient enters each of n sums once: their error grows with the root of n.
double half_tolerance(std::int64_t n) { return 2e-2 * std::max(1.0, std::sqrt(static_cast<double>(n) / 16)); }

TEST(Fft, HoldsForEveryLength) {
  for (const std::int64_t n : kLengths) {
    check_op({.name = "rfft of " + std::to_string(n),
              .op = [](std::span<const Tensor> in) { return rfft(in[0]); },
              .inputs = {{Shape{3, n}}},
              .half_tolerance = half_tolerance(n)});
    check_op({.name = "irfft to " + std::to_string(n),
              .op = [=](std::span<const Tensor> in) { return irfft(in[0], n); },
              .inputs = {{Shape{2, 3, n / 2 + 1}}}});
  }
}

// 34: more lines than fit into the lanes of a vector, and not a multiple of these; 32: whole vectors.
TEST(Fft, HoldsForEveryAxisAndNumberOfLines) {
  for (const std::int64_t inner : {1, 2, 5, 32, 34}) {
    for (const int axis : {0, 1, -2}) {
      check_op({.name = "axis " + std::to_string(axis) + " of [3, 4, " + std::to_string(inner) + "]",
                .op = [=](std::span<const Tensor> in) { return rfft(in[0], axis); },
                .inputs = {{Shape{3, 4, inner}}}});
    }
    check_op({.name = "back along axis 1 to [3, 5, " + std::to_string(inner) + "]",
              .op = [](std::span<const Tensor> in) { return irfft(in[0], 5, 1); },
              .inputs = {{Shape{2, 3, 3, inner}}}});
  }
}

TEST(Fft, LeavesOutHighFrequencies) {
  for (const std::int64_t bins : {1, 3, 6}) {
    check_op({.name = std::to_string(bins) + " bins",
              .op = [=](std::span<const Tensor> in) { return rfft(in[0], 1, bins); },
              .inputs = {{Shape{2, 12, 3}}}});
    check_op({.name = "from " + std::to_string(bins) + " bins",
              .op = [](std::span<const Tensor> in) { return irfft(in[0], 12, 1); },
              .inputs = {{Shape{2, 2, bins, 3}}}});
  }
  const Tensor x = randn({2, 12, 3}, 1);
  EXPECT_EQ(max_error(rfft(x, 1, 4), slice(rfft(x, 1), 2, 0, 4)), 0);
}

TEST(Fft, EqualsTheDefinition) {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 4, 7, 11}, {5});
  const Tensor z = rfft(x);
  for (std::int64_t k = 0; k < 3; ++k) {
    double re = 0, im = 0;
    for (std::int64_t t = 0; t < 5; ++t) {
      const double angle = -2 * std::numbers::pi * static_cast<double>(k * t) / 5;
      re += x.data<float>()[t] * std::cos(angle);
      im += x.data<float>()[t] * std::sin(angle);
    }
    EXPECT_NEAR(z.data<float>()[k], re, 1e-5);
    EXPECT_NEAR(z.data<float>()[3 + k], im, 1e-5);
  }
}

TEST(Fft, GoesThereAndBack) {
  for (const std::int64_t n : {1, 2, 337, 720, 997, 1024, 10'007}) {  // 337, 997 and 10007 are primes
    const Tensor x = randn({5, n}, static_cast<std::uint64_t>(n));
    EXPECT_LT(max_error(irfft(rfft(x), n), x), 5e-6) << n;
  }
  const Tensor line = randn({200'003}, 3);  // a prime, longer than wide buffers are made for
  EXPECT_LT(max_error(irfft(rfft(line), 200'003), line), 5e-6);
}

TEST(Fft, AcceptsTensorsWithoutElements) {
  EXPECT_EQ(rfft(Tensor::zeros({0, 6})).shape(), (Shape{2, 0, 4}));
  EXPECT_EQ(irfft(Tensor::zeros({2, 0, 4}), 7).shape(), (Shape{0, 7}));
}

TEST(Fft, RefusesWhatHasNoMeaning) {
  const Tensor x = randn({3, 8}, 1), z = randn({2, 5}, 2);
  EXPECT_THROW(rfft(x, 2), DimensionMismatch);
  EXPECT_THROW(rfft(x, -1, 6), DimensionMismatch);
  EXPECT_THROW(rfft(x, -1, -1), DimensionMismatch);
  EXPECT_THROW(rfft(Tensor::zeros({3, 0})), DimensionMismatch);
  EXPECT_THROW(irfft(z, 7), DimensionMismatch);
  EXPECT_THROW(irfft(x, 14), DimensionMismatch);
}

}  // namespace
}  // namespace ingot
