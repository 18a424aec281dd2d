#include "ingot/ops/complex.h"

#include <algorithm>
#include <complex>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::max_error;
using testing::randn;

TEST(Complex, MultipliesAndMeasures) {
  for (const std::int64_t n : {1, 7, 64}) {
    for (const bool conjugate : {false, true}) {
      check_op({.name = conjugate ? "a·conj(b)" : "a·b",
                .op = [=](std::span<const Tensor> in) { return complex_multiply(in[0], in[1], conjugate); },
                .inputs = {{Shape{2, n, 3}}, {Shape{2, n, 3}}}});
    }
    check_op(
        {.name = "|z|",
         .op = [](std::span<const Tensor> in) { return complex_abs(in[0]); },
         .inputs = {{.shape = Shape{2, n, 3}, .values = [](double v) { return v < 0 ? v - 1 : v + 1; }}}});
  }
  // A product with itself: two slots of one gradient.
  check_op({.name = "power",
            .op = [](std::span<const Tensor> in) { return complex_multiply(in[0], in[0], true); },
            .inputs = {{Shape{2, 9}}}});
  const Tensor a = Tensor::from(std::vector<float>{1, 2}, {2}),
               b = Tensor::from(std::vector<float>{3, -4}, {2});
  EXPECT_EQ(complex_multiply(a, b).to_vector<float>(), (std::vector<float>{11, 2}));
  EXPECT_EQ(complex_multiply(a, b, true).to_vector<float>(), (std::vector<float>{-5, 10}));
  EXPECT_EQ(complex_abs(b).item(), 5);
}

TEST(Complex, AbsoluteValuesNeitherOverflowNorVanish) {
  const Tensor z = Tensor::from(std::vector<float>{3e30F, 3e-30F, 0, 4e30F, 4e-30F, 0}, {2, 3});
  const auto y = complex_abs(z).to_vector<float>();
  EXPECT_FLOAT_EQ(y[0], 5e30F);
  EXPECT_FLOAT_EQ(y[1], 5e-30F);
  EXPECT_EQ(y[2], 0);
}

TEST(Complex, TheGradientOfAnAmplitudeOfZeroIsZero) {
  Tensor z = Tensor::zeros({2, 2});
  z.set_requires_grad(true);
  backward(sum(complex_abs(z)));
  EXPECT_EQ(z.grad().to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
}

TEST(Complex, MultipliesMatricesHoweverTheyLie) {
  constexpr double kHalf = 4e-2;  // a part is the sum of two products, both rounded
  for (const std::int64_t k : {1, 4, 17}) {
    check_op({.name = "plain, k " + std::to_string(k),
              .op = [](std::span<const Tensor> in) { return complex_matmul(in[0], in[1]); },
              .inputs = {{Shape{2, 2, 3, k}}, {Shape{2, 2, k, 5}}},
              .half_tolerance = kHalf});
  }
  check_op({.name = "a transposed factor",
            .op = [](std::span<const Tensor> in) { return complex_matmul(in[0], transpose(in[1], 2, 3)); },
            .inputs = {{Shape{2, 2, 3, 4}}, {Shape{2, 2, 5, 4}}},
            .half_tolerance = kHalf});
  check_op({.name = "batches that do not stand first",
            .op =
                [](std::span<const Tensor> in) {
                  return complex_matmul(permute(in[0], {0, 2, 1, 3}), in[1]);
                },
            .inputs = {{Shape{2, 3, 2, 4}}, {Shape{2, 2, 4, 5}}},
            .half_tolerance = kHalf});
  check_op({.name = "neither rows nor columns adjacent",
            .op =
                [](std::span<const Tensor> in) {
                  return complex_matmul(permute(in[0], {0, 3, 1, 2}), in[1]);
                },
            .inputs = {{Shape{2, 3, 4, 2}}, {Shape{2, 2, 4, 5}}},
            .half_tolerance = kHalf});
  const Tensor a = Tensor::from(std::vector<float>{1, 2}, {2, 1, 1}),
               b = Tensor::from(std::vector<float>{3, -4}, {2, 1, 1});
  EXPECT_EQ(complex_matmul(a, b).to_vector<float>(), (std::vector<float>{11, 2}));
}

TEST(Complex, HasTheTanhOfTheStandardLibrary) {
  check_op(
      {.name = "tanh",  // away from the poles, where no two ways to round agree
       .op = [](std::span<const Tensor> in) { return complex_tanh(in[0]); },
       .inputs = {{.shape = Shape{2, 19}, .values = [](double v) { return std::clamp(v, -1.2, 1.2); }}}});
  // Small, large and of either sign; the standard function overflows nowhere either.
  const std::vector<float> re{1e-6F, -0.3F, 0.7F, 20, -90, 3, 0, -0.1F},
      im{1, 2, -3, 300, 0.5F, -1e-5F, 0.4F, 1.5F};
  std::vector<float> both = re;
  both.insert(both.end(), im.begin(), im.end());
  const auto y = complex_tanh(Tensor::from(both, {2, 8})).to_vector<float>();
  for (std::size_t i = 0; i < re.size(); ++i) {
    const std::complex<double> wanted = std::tanh(std::complex<double>(re[i], im[i]));
    EXPECT_NEAR(y[i], wanted.real(), 2e-6 * std::max(1.0, std::abs(wanted))) << re[i] << " + i·" << im[i];
    EXPECT_NEAR(y[8 + i], wanted.imag(), 2e-6 * std::max(1.0, std::abs(wanted))) << re[i] << " + i·" << im[i];
  }
}

TEST(Complex, RefusesWhatIsNotComplexOrDoesNotFit) {
  const Tensor x = randn({3, 8}, 1), z = randn({2, 5}, 2);
  EXPECT_THROW(complex_multiply(z, randn({2, 4}, 3)), ShapeMismatch);
  EXPECT_THROW(complex_multiply(x, x), DimensionMismatch);
  EXPECT_THROW(complex_abs(x), DimensionMismatch);
  EXPECT_THROW(complex_tanh(x), DimensionMismatch);
  EXPECT_THROW(complex_matmul(randn({2, 3, 4}, 1), randn({2, 3, 4}, 1)), ShapeMismatch);
  EXPECT_EQ(complex_abs(Tensor::zeros({2, 0})).shape(), (Shape{0}));
}

}  // namespace
}  // namespace ingot
