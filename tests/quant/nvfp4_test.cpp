// NVFP4 as a format of weights; its kernels are in codebook_matrix_test.cpp.
#include "ingot/kernels/nvfp4.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/quant/helpers.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/core/stream.h"
#include "ingot/quant/codebook_matrix.h"

namespace ingot::quant {
namespace {

using test::expect_message;
using test::message_of;
using test::random;

constexpr std::int64_t kBlock = kernels::kNvfp4Block;

float largest_of(const Tensor& w) {
  float largest = 0;
  for (const float x : w.to_vector<float>()) largest = std::max(largest, std::abs(x));
  return largest;
}

TEST(Nvfp4, RoundsAsTheRecipeDoesWithoutFourOverSix) {
  const Tensor w = random({24, 80}, 1), amax = Tensor::from(std::vector<float>{largest_of(w)}, {1});
  const Tensor numbers = Tensor::empty({24, 80});
  kernels::launch(kernels::round_nvfp4, current_stream(kCpu),
                  {.x = w.view(), .amax = amax.view(), .y = numbers.view()});
  const CodebookMatrix m = CodebookMatrix::quantize_nvfp4(w, "w", false);
  for (std::int64_t i = 0; i < w.numel(); ++i)
    ASSERT_EQ(kernels::kE2m1Values[m.codes.data<std::uint8_t>()[i]] * m.scales.data<float>()[i / kBlock],
              numbers.data<float>()[i])
        << i;
  EXPECT_EQ(m.row_scales.data<float>()[0], 1 / (448 * 6 / largest_of(w)));
}

// 1, 2, 3 and 4 times something are exact where 4 is the largest; 6 would need 4.5 for the third.
TEST(Nvfp4, ABlockThatFitsFourIsExactAndOneThatFitsSixIsToo) {
  std::vector<float> values(2 * kBlock, 0.0F);
  for (std::size_t i = 0; i < 4; ++i) values[i] = static_cast<float>(i + 1);
  const float six[] = {0.5F, 1.5F, -3.0F, 6.0F};
  std::copy(std::begin(six), std::end(six), values.begin() + kBlock);
  const Tensor w = Tensor::from(values, {1, 2 * kBlock});
  const Tensor with = CodebookMatrix::quantize_nvfp4(w).dequantize(),
               without = CodebookMatrix::quantize_nvfp4(w, "w", false).dequantize();
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(with.data<float>()[i], values[i], 1e-6F * std::abs(values[i])) << i;
  EXPECT_GT(std::abs(without.data<float>()[2] - 3), 0.1F);
}

double squared_error(const Tensor& w, const CodebookMatrix& m, std::int64_t block) {
  const Tensor values = m.dequantize();
  double error = 0;
  for (std::int64_t i = block * kBlock; i < (block + 1) * kBlock; ++i)
    error += std::pow(double{values.data<float>()[i]} - double{w.data<float>()[i]}, 2);
  return error;
}

TEST(Nvfp4, EachBlockHasTheSmallerErrorOfSixAndFour) {
  const Tensor w = random({16, 64}, 2);
  const CodebookMatrix m = CodebookMatrix::quantize_nvfp4(w);
  const float whole = 1536 / largest_of(w);
  std::size_t fours = 0;
  for (std::int64_t block = 0; block < m.scales.numel(); ++block) {
    const float* x = w.data<float>() + block * kBlock;
    float top = 0;
    for (std::int64_t i = 0; i < kBlock; ++i) top = std::max(top, std::abs(x[i]));
    // The other choice's error, of the nearest numbers.
    double least = std::numeric_limits<double>::max();
    for (const float largest : {6.0F, 4.0F}) {
      const float scale = static_cast<float>(f8e4m3(top / largest * whole));
      double error = 0;
      for (std::int64_t i = 0; i < kBlock; ++i) {
        double nearest = std::numeric_limits<double>::max();
        for (const float number : kernels::kE2m1Values)
          nearest =
              std::min(nearest, std::abs(double{number} * double{scale} / double{whole} - double{x[i]}));
        error += nearest * nearest;
      }
      least = std::min(least, error);
      if (largest == 4 && m.scales.data<float>()[block] == scale) ++fours;
    }
    EXPECT_NEAR(squared_error(w, m, block), least, 1e-4 * least) << block;
  }
  EXPECT_GT(fours, 0U);
  EXPECT_LT(fours, static_cast<std::size_t>(m.scales.numel()));
}

TEST(Nvfp4, ZerosStayZerosAndTheLargestNumbersAreFinite) {
  const CodebookMatrix zeros = CodebookMatrix::quantize_nvfp4(Tensor::zeros({2, 32}));
  EXPECT_EQ(largest_of(zeros.dequantize()), 0);
  std::vector<float> values(32, 1e-38F);
  values[3] = std::numeric_limits<float>::max();
  const Tensor w = Tensor::from(values, {1, 32});
  EXPECT_NEAR(CodebookMatrix::quantize_nvfp4(w).dequantize().data<float>()[3] / values[3], 1, 0.1);
}

TEST(Nvfp4, WhatCannotBeRoundedIsNamed) {
  expect_message(message_of<InvalidConfig>([] {
                   CodebookMatrix::quantize_nvfp4(random({2, 40}, 1), "q_proj");
                 }),
                 {"q_proj", "40", "16"});
  std::vector<float> values(16, 1.0F);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  expect_message(message_of<NonFinite>([&] {
                   CodebookMatrix::quantize_nvfp4(Tensor::from(values, {1, 16}), "q_proj");
                 }),
                 {"q_proj", "5"});
}

}  // namespace
}  // namespace ingot::quant
