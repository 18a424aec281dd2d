#include "ingot/nn/init.h"

#include <cmath>
#include <functional>
#include <numbers>

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"

namespace ingot {
namespace {

struct Moments {
  double mean = 0, std = 0, low = INFINITY, high = -INFINITY;
};

Moments moments(const std::vector<float>& values) {
  Moments m;
  for (const float v : values) {
    m.mean += v;
    m.low = std::min<double>(m.low, v);
    m.high = std::max<double>(m.high, v);
  }
  m.mean /= static_cast<double>(values.size());
  for (const float v : values) m.std += (v - m.mean) * (v - m.mean);
  m.std = std::sqrt(m.std / static_cast<double>(values.size()));
  return m;
}

std::vector<float> filled(const Shape& shape, const Init& init, RngKey key = {7, 1}) {
  const Tensor tensor = Tensor::empty(shape);
  fill_(tensor, init, key);
  return tensor.to_vector<float>();
}

// Kolmogorov-Smirnov: the largest distance from the distribution function, times sqrt(n). Above 1.95 has a
// probability of 0.001; seeds are fixed, so the outcome is too.
double ks(std::vector<float> values, const std::function<double(double)>& cdf) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double f = cdf(values[i]);
    distance = std::max({distance, f - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - f});
  }
  return distance * std::sqrt(n);
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

TEST(Init, UniformFillsItsInterval) {
  const auto values = filled({200, 500}, init::Uniform{-0.5, 1.5});
  EXPECT_LT(ks(values, [](double x) { return (x + 0.5) / 2; }), 1.95);
  const Moments m = moments(values);
  EXPECT_GE(m.low, -0.5);
  EXPECT_LE(m.high, 1.5);
}

TEST(Init, NormalHasTheDistributionAskedFor) {
  const auto values = filled({200, 501}, init::Normal{.mean = 3, .std = 0.02});
  EXPECT_LT(ks(values, [](double x) { return normal_cdf((x - 3) / 0.02); }), 1.95);
}

TEST(Init, NeighboursOfANormalDoNotCorrelate) {
  const auto values = filled({100000}, init::Normal{});
  for (std::size_t lag = 1; lag <= 8; ++lag) {
    double sum = 0;
    for (std::size_t i = 0; i + lag < values.size(); ++i) sum += values[i] * values[i + lag];
    EXPECT_LT(std::abs(sum / std::sqrt(values.size())), 3.5) << "lag " << lag;
  }
}

TEST(Init, TruncatedNormalIsTheNormalBetweenItsLimits) {
  for (const init::TruncatedNormal t :
       {init::TruncatedNormal{}, {0, 0.02, -0.04, 0.04}, {1, 2, -1, 0.5}, {0, 1, 3, 5}, {5, 1, 0, 2}}) {
    const auto cdf = [&](double x) { return normal_cdf((x - t.mean) / t.std); };
    const double a = cdf(t.low), b = cdf(t.high);
    const auto values = filled({100000}, t);
    EXPECT_LT(ks(values, [&](double x) { return (cdf(x) - a) / (b - a); }), 1.95) << t.low << ".." << t.high;
    const Moments m = moments(values);
    EXPECT_GE(m.low, static_cast<float>(t.low));
    EXPECT_LE(m.high, static_cast<float>(t.high));
  }
}

TEST(Init, TruncatedNormalWithoutCutKeepsItsStd) {
  EXPECT_NEAR(moments(filled({100000}, init::TruncatedNormal{.std = 0.02})).std, 0.02, 2e-4);
}

TEST(Init, XavierHasVarianceTwoOverBothFans) {
  const Shape shape{96, 64, 3, 3};  // fan_in 576, fan_out 864
  const double std = 0.7 * std::sqrt(2.0 / (576 + 864));
  const Moments uniform = moments(filled(shape, init::Xavier{.gain = 0.7}));
  EXPECT_NEAR(uniform.std, std, 0.01 * std);
  EXPECT_NEAR(uniform.high, std * std::sqrt(3), 1e-3 * std);
  const Moments normal = moments(filled(shape, init::Xavier{init::Distribution::normal, 0.7}));
  EXPECT_NEAR(normal.std, std, 0.01 * std);
  EXPECT_GT(normal.high, 3 * std);
}

TEST(Init, KaimingHasVarianceGainSquaredOverTheChosenFan) {
  const Shape shape{96, 64, 3};  // fan_in 192, fan_out 288
  for (const auto distribution : {init::Distribution::uniform, init::Distribution::normal}) {
    const Moments in = moments(filled(shape, init::Kaiming{distribution}));
    EXPECT_NEAR(in.std, std::sqrt(2.0 / 192), 0.01 * std::sqrt(2.0 / 192));
    const Moments out = moments(filled(shape, init::Kaiming{distribution, init::FanMode::fan_out, 1}));
    EXPECT_NEAR(out.std, std::sqrt(1.0 / 288), 0.01 * std::sqrt(1.0 / 288));
  }
}

TEST(Init, GainsArePyTorchs) {
  EXPECT_DOUBLE_EQ(init::gain(init::Nonlinearity::linear), 1);
  EXPECT_DOUBLE_EQ(init::gain(init::Nonlinearity::sigmoid), 1);
  EXPECT_DOUBLE_EQ(init::gain(init::Nonlinearity::tanh), 5.0 / 3);
  EXPECT_DOUBLE_EQ(init::gain(init::Nonlinearity::relu), std::sqrt(2));
  EXPECT_DOUBLE_EQ(init::gain(init::Nonlinearity::leaky_relu, 0.2), std::sqrt(2 / 1.04));
  EXPECT_DOUBLE_EQ(init::gain(init::Nonlinearity::selu), 0.75);
  // nn.Linear's own choice: leaky_relu with slope sqrt(5) makes a bound of 1 / sqrt(fan_in)
  const double gain = init::gain(init::Nonlinearity::leaky_relu, std::sqrt(5));
  EXPECT_NEAR(moments(filled({300, 100}, init::Kaiming{.gain = gain})).high, 0.1, 1e-4);
}

TEST(Init, OrthogonalRowsOrColumnsAreOrthonormalTimesTheGain) {
  for (const Shape& shape :
       {Shape{5, 5}, Shape{4, 9}, Shape{9, 4}, Shape{6, 2, 5}, Shape{1, 3}, Shape{70, 64}}) {
    const auto a = filled(shape, init::Orthogonal{2});
    const std::int64_t rows = shape[0], columns = shape.numel() / rows, m = std::min(rows, columns);
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < m; ++j) {
        double dot = 0;
        for (std::int64_t k = 0; k < std::max(rows, columns); ++k) {
          dot += rows <= columns ? double{a[i * columns + k]} * a[j * columns + k]
                                 : double{a[k * columns + i]} * a[k * columns + j];
        }
        EXPECT_NEAR(dot, i == j ? 4 : 0, 1e-5) << to_string(shape);
      }
    }
  }
}

TEST(Init, OrthogonalMatricesAreNotBiasedTowardsTheIdentity) {
  double trace = 0;  // its mean is 0 over uniformly chosen orthogonal matrices, with variance 1
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const auto a = filled({3, 3}, init::Orthogonal{}, {seed, 0});
    trace += a[0] + a[4] + a[8];
  }
  EXPECT_LT(std::abs(trace / std::sqrt(400.0)), 3.3);
}

TEST(Init, ThreadsAndLengthDoNotChangeValues) {
  const int threads = num_threads();
  const Init normal = init::Normal{};
  set_num_threads(1);
  const auto one = filled({100003}, normal);
  set_num_threads(3);
  EXPECT_EQ(filled({100003}, normal), one);
  set_num_threads(threads);
  EXPECT_EQ(filled({10}, normal), std::vector<float>(one.begin(), one.begin() + 10));
  EXPECT_NE(filled({10}, normal, {7, 2}), filled({10}, normal, {7, 1}));
}

TEST(Init, SmallDtypesHoldTheRoundedValues) {
  const Tensor f = Tensor::empty({1000}), b = Tensor::empty({1000}, DType::bf16);
  fill_(f, init::Normal{}, {3, 4});
  fill_(b, init::Normal{}, {3, 4});
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(static_cast<float>(b.data<bf16>()[i]), static_cast<float>(bf16(f.data<float>()[i])));
  }
}

TEST(Init, EmptyTensorsAreFine) {
  EXPECT_TRUE(filled({0, 4}, init::Xavier{}).empty());
  EXPECT_TRUE(filled({0, 4}, init::Orthogonal{}).empty());
  EXPECT_TRUE(filled({3, 0}, init::Kaiming{}).empty());
}

TEST(Init, RefusesWhatHasNoMeaning) {
  const Tensor matrix = Tensor::empty({2, 2}), vector = Tensor::empty({4});
  EXPECT_THROW(fill_(matrix, init::Normal{.std = -1}, {}), InvalidConfig);
  EXPECT_THROW(fill_(matrix, init::Normal{.mean = NAN}, {}), InvalidConfig);
  EXPECT_THROW(fill_(matrix, init::Uniform{1, 0}, {}), InvalidConfig);
  EXPECT_THROW(fill_(matrix, init::Uniform{0, INFINITY}, {}), InvalidConfig);
  EXPECT_THROW(fill_(matrix, init::TruncatedNormal{.std = 0}, {}), InvalidConfig);
  EXPECT_THROW(fill_(matrix, init::TruncatedNormal{.low = 2, .high = -2}, {}), InvalidConfig);
  EXPECT_THROW(fill_(matrix, init::TruncatedNormal{.std = 0.02, .low = 1, .high = 2}, {}), InvalidConfig);
  EXPECT_THROW(fill_(matrix, init::Xavier{.gain = -1}, {}), InvalidConfig);
  EXPECT_THROW(fill_(matrix, init::Orthogonal{INFINITY}, {}), InvalidConfig);
  EXPECT_THROW(fill_(vector, init::Xavier{}, {}), DimensionMismatch);
  EXPECT_THROW(fill_(vector, init::Kaiming{}, {}), DimensionMismatch);
  EXPECT_THROW(fill_(vector, init::Orthogonal{}, {}), DimensionMismatch);
  EXPECT_THROW(fill_(Tensor::empty({2}, DType::i32), init::kZeros, {}), Error);
}

}  // namespace
}  // namespace ingot
