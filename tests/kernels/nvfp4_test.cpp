#include "ingot/kernels/nvfp4.h"

#include <cmath>
#include <limits>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/ops/elementwise.h"

// Rounding to NVFP4 in registers: the reference's bits.
namespace ingot {
namespace {

using testing::randn;

Tensor rounded(const Tensor& x, float amax, bool square, bool stochastic, kernels::ImplKind kind) {
  const Tensor largest = Tensor::from(std::vector<float>{amax}, {1});
  const Tensor y = Tensor::empty(x.shape(), DType::f32);
  const kernels::ForceKind forced(kind);
  launch(kernels::round_nvfp4, current_stream(kCpu),
         {.x = x.view(),
          .amax = largest.view(),
          .y = y.view(),
          .square = square,
          .stochastic = stochastic,
          .key = {.seed = 3, .stream = 4}});
  return y;
}

void expect_the_same(const Tensor& x, float amax, const std::string& what) {
  for (const bool square : {false, true}) {
    for (const bool stochastic : {false, true}) {
      const Tensor ours = rounded(x, amax, square, stochastic, kernels::ImplKind::simd);
      const Tensor theirs = rounded(x, amax, square, stochastic, kernels::ImplKind::reference);
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        const float a = ours.data<float>()[i], b = theirs.data<float>()[i];
        ASSERT_TRUE((std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b)))
            << what << (square ? ", square" : "") << (stochastic ? ", stochastic" : "") << ", element " << i
            << " of " << x.data<float>()[i] << ": " << a << " and " << b;
      }
    }
  }
}

TEST(RoundNvfp4, InRegistersGivesTheBitsOfTheReference) {
  for (const auto& [rows, cols] :
       {std::pair<std::int64_t, std::int64_t>{1, 16}, {18, 48}, {33, 80}, {5, 208}})
    for (const float spread : {7.0F, 1e-3F, 1e-37F, 1e37F})
      for (const float amax : {40.0F, 1e-38F, 0.0F, std::numeric_limits<float>::infinity()})
        expect_the_same(randn({rows, cols}, 1) * spread, amax,
                        std::to_string(rows) + " x " + std::to_string(cols) + ", " + std::to_string(amax));
}

// Multiples of a quarter up to 6, whose blocks all have the scale 1: every border and every tie.
TEST(RoundNvfp4, InRegistersRoundsTiesAsTheReference) {
  const Tensor x = Tensor::zeros({4, 16}, DType::f32);
  for (std::int64_t i = 0; i < 64; ++i)
    x.data<float>()[i] = (i % 2 == 0 ? 0.25F : -0.25F) * static_cast<float>(i % 25);
  for (std::int64_t row = 0; row < 4; ++row) x.data<float>()[row * 16] = 6;
  expect_the_same(x, 6 * 448, "ties");
}

TEST(RoundNvfp4, ANanOrAnInfinityChangesItsBlockAsInTheReference) {
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    const Tensor x = randn({20, 64}, 2);
    x.data<float>()[3 * 64 + 21] = odd;
    for (const float amax : {4.0F, odd}) expect_the_same(x, amax, std::to_string(odd));
  }
}

}  // namespace
}  // namespace ingot
