#include "ingot/ops/batch_norm.h"

#include <cmath>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/kernels/batch_norm.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"

// Batch normalization where a channel's sums come from several blocks, against the reference in f64.
namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

using test::kDevice;
using test::largest;

struct BatchNormResults {
  Tensor y, dx, dweight, dbias;
};

// `inputs`: x, weight, bias and what y is weighted with. Two backward passes, so that gradients are added up.
BatchNormResults run_batch_norm(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> in;
  for (const Tensor& input : inputs) {
    in.push_back(input.detach());
    in.back().set_requires_grad(true);
  }
  Tensor y;
  for (int pass = 0; pass < 2; ++pass) {
    y = batch_norm(in[0], in[1], in[2], {}, {});
    backward(sum(y * in[3].detach()));
  }
  return {y, in[0].grad(), in[1].grad(), in[2].grad()};
}

void expect_batch_norm(const Shape& shape, DType dtype) {
  std::vector<Tensor> exact, rounded;
  for (const Shape& size : {shape, Shape{shape[1]}, Shape{shape[1]}, shape}) {
    const auto seed = static_cast<std::uint64_t>(exact.size() + 1);
    rounded.push_back(to(to(randn(size, seed, DType::f64), dtype), kDevice));
    exact.push_back(to(to(rounded.back(), kCpu), DType::f64));
  }
  const BatchNormResults expected = run_batch_norm(exact), actual = run_batch_norm(rounded);
  const double bound = dtype == DType::bf16 ? 0x1p-6 : dtype == DType::f16 ? 0x1p-9 : 1e-5;
  for (const auto& [what, a, e] : {std::tuple{"y", actual.y, expected.y},
                                   {"dx", actual.dx, expected.dx},
                                   {"dweight", actual.dweight, expected.dweight},
                                   {"dbias", actual.dbias, expected.dbias}})
    EXPECT_LE(max_error(a, e), bound * largest(e)) << to_string(shape) << ' ' << what << ' ' << name(dtype);
}

TEST(CudaBatchNorm, SumsOfSeveralBlocksEqualTheReference) {
  // Channels last, in vectors and not; then lines of positions, in vectors and not, the last shorter than a
  // warp.
  for (const Shape& shape : {Shape{2500, 16}, {2300, 72}, {600, 19}, {3000, 1}, {20, 2, 2048}, {170, 2, 37}})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) expect_batch_norm(shape, dtype);
}

struct Statistics {
  std::vector<float> mean, variance;
};
Statistics statistics(const Tensor& x) {
  const std::int64_t channels = x.dim(1);
  const Tensor mean = Tensor::empty({channels}, DType::f32, kDevice), variance = Tensor::empty_like(mean),
               scratch = Tensor::empty({8, channels}, DType::f64, kDevice);
  launch(kernels::batch_statistics, current_stream(kDevice),
         {.x = x.view(), .mean = mean.view(), .variance = variance.view(), .scratch = scratch.view()});
  return {mean.to_vector<float>(), variance.to_vector<float>()};
}

// Channel 0 is far from zero; 1 too, but for its first element; 2 is constant; 3 holds a NaN, 4 an infinity.
TEST(CudaBatchNorm, StatisticsAreExactFarFromZeroAndForStrangeValues) {
  constexpr std::int64_t kSamples = 1000, kChannels = 5;
  Tensor x = randn({kSamples, kChannels, 1}, 5);
  for (std::int64_t i = 0; i < kSamples; ++i) {
    float* row = x.data<float>() + i * kChannels;
    row[0] = 5e5F + 0.03125F * std::round(4 * row[0]);
    row[1] = i == 0 ? -3000.0F : 5000 + 0.01F * row[1];
    row[2] = 0.1F;
  }
  x.data<float>()[3] = NAN;
  x.data<float>()[500 * kChannels + 4] = INFINITY;
  const Statistics found = statistics(to(x, kDevice));
  for (std::size_t channel = 0; channel < 2; ++channel) {
    const auto value = [&](std::int64_t i) {
      return double{x.data<float>()[i * kChannels + static_cast<std::int64_t>(channel)]};
    };
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < kSamples; ++i) sum += value(i);
    for (std::int64_t i = 0; i < kSamples; ++i) squares += std::pow(value(i) - sum / kSamples, 2);
    EXPECT_FLOAT_EQ(found.mean[channel], static_cast<float>(sum / kSamples));
    EXPECT_FLOAT_EQ(found.variance[channel], static_cast<float>(squares / kSamples));
  }
  EXPECT_EQ(found.mean[2], 0.1F);
  EXPECT_LT(found.variance[2], 1e-16F);
  EXPECT_GE(found.variance[2], 0.0F);
  EXPECT_TRUE(std::isnan(found.mean[3]) && std::isnan(found.variance[3]));
  EXPECT_TRUE(std::isinf(found.mean[4]) && std::isnan(found.variance[4]));
}

TEST(CudaBatchNorm, StatisticsOfNothingAreNaN) {
  for (const Shape& shape : {Shape{0, 3, 1}, Shape{2, 3, 0}, Shape{0, 3, 8}}) {
    const Statistics found = statistics(Tensor::empty(shape, DType::f32, kDevice));
    for (const float value : found.mean) EXPECT_TRUE(std::isnan(value)) << to_string(shape);
    for (const float value : found.variance) EXPECT_TRUE(std::isnan(value)) << to_string(shape);
  }
}

}  // namespace
}  // namespace ingot
