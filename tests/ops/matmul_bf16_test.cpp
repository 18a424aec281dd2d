#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/rng.h"
#include "ingot/kernels/bf16_dot_products.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/instruction_set.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"

// Matmuls of bf16: by the processor's dot products, or widened to f32.
namespace ingot {
namespace {

using testing::randn;

// How often each implementation of gemm runs in a linear layer of bf16, forward and backward.
std::map<std::string, std::int64_t> matmuls_of_bf16_layer(std::int64_t rows, std::int64_t in,
                                                          std::int64_t out) {
  Tensor x = randn({rows, in}, 1, DType::bf16), w = randn({out, in}, 2, DType::bf16);
  x.set_requires_grad(true);
  w.set_requires_grad(true);
  const kernels::LaunchProfile profile;
  backward(linear(x, w), {.grad = randn({rows, out}, 3, DType::bf16)});
  std::map<std::string, std::int64_t> launches;
  for (const auto& entry : profile.entries())
    if (std::string_view(entry.kernel) == "gemm")
      launches[std::string(entry.implementation)] += entry.launches;
  return launches;
}

TEST(Bf16Matmul, TakesTheProcessorsDotProductsOfBf16OrWidensLargeMatmulsWhereTheyAreSlower) {
  if (kernels::instruction_set_limit() < kernels::InstructionSet::avx512_bf16)
    GTEST_SKIP() << "without dot products of bf16";
  using Launches = std::map<std::string, std::int64_t>;
  for (const bool use : {true, false}) {
    kernels::set_bf16_dot_products(use);
    const std::string large = use ? "onednn_bf16" : "onednn_widened";
    EXPECT_EQ(matmuls_of_bf16_layer(160, 176, 144), (Launches{{large, 3}})) << use;
    EXPECT_EQ(matmuls_of_bf16_layer(64, 96, 48), (Launches{{"onednn_bf16", 3}})) << use;
  }
  kernels::set_bf16_dot_products(std::nullopt);
  const auto measured = matmuls_of_bf16_layer(160, 176, 144);
  EXPECT_EQ(measured, (Launches{{kernels::use_bf16_dot_products() ? "onednn_bf16" : "onednn_widened", 3}}));
}

// Several blocks of rows, columns and depth, and each layout of both operands.
TEST(Bf16Matmul, WidenedToF32IsRoundedOnce) {
  for (const auto& [m, n, k] : {std::tuple{700, 1100, 130}, {130, 70, 1040}, {520, 65, 64}, {70, 80, 5000}}) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        const Tensor a =
            a_transposed ? transpose(randn({k, m}, 1, DType::bf16), 0, 1) : randn({m, k}, 1, DType::bf16);
        const Tensor b =
            b_transposed ? transpose(randn({n, k}, 2, DType::bf16), 0, 1) : randn({k, n}, 2, DType::bf16);
        const Tensor bias = randn({n}, 3, DType::bf16);
        const auto product = [&](const Tensor& left, const Tensor& right, const Tensor& added) {
          const Tensor c = Tensor::zeros({m, n}, left.dtype());
          kernels::launch(kernels::gemm, current_stream(kCpu),
                          {.a = left.view(), .b = right.view(), .c = c.view(), .bias = added.view()});
          return c;
        };
        kernels::set_bf16_dot_products(false);
        const std::vector<float> ours = to(product(a, b, bias), DType::f32).to_vector<float>();
        kernels::set_bf16_dot_products(std::nullopt);
        const std::vector<float> exact =
            product(to(a, DType::f32), to(b, DType::f32), to(bias, DType::f32)).to_vector<float>();
        for (std::size_t i = 0; i < exact.size(); ++i)
          ASSERT_NEAR(ours[i], exact[i], std::fabs(exact[i]) / 256 + 1e-4) << m << " " << i;
      }
    }
  }
}

// A matrix of normal numbers, or one of the same shape that is a transposed view.
Tensor matrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed, DType dtype, bool transposed) {
  return transposed ? transpose(randn({cols, rows}, seed, dtype), 0, 1) : randn({rows, cols}, seed, dtype);
}

struct Sum {
  Tensor a, b, c;
  float beta;
  void run() const {
    kernels::launch(kernels::gemm, current_stream(kCpu),
                    {.a = a.view(), .b = b.view(), .c = c.view(), .alpha = 0.75F, .beta = beta});
  }
};

std::vector<float> values(const Tensor& x) {
  return to(x.is_contiguous() ? x : clone(x), DType::f32).to_vector<float>();
}

// One size is that of an adapter's rank; the others end inside tiles.
TEST(HalfMatmul, WithOneSmallSizeIsSummedInF32AndRoundedOnceInEveryLayout) {
  Rng rng(RngKey{.seed = 7});
  kernels::set_bf16_dot_products(false);
  for (int drawn = 0; drawn < 48; ++drawn) {
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(rng.below(n)); };
    std::array<std::int64_t, 3> sizes{300 + below(700), 300 + below(700), 300 + below(700)};
    sizes[static_cast<std::size_t>(below(3))] = 8 + below(57);
    const auto [m, n, k] = sizes;
    const DType dtype = below(2) == 0 ? DType::bf16 : DType::f16;
    const std::array<bool, 3> transposed{below(2) == 0, below(2) == 0, below(2) == 0};
    const Tensor a = matrix(m, k, 1, dtype, transposed[0]), b = matrix(k, n, 2, dtype, transposed[1]),
                 c = matrix(m, n, 3, dtype, transposed[2]), exact = clone(to(c, DType::f32));
    const float beta = below(2) == 0 ? 0.0F : 1.0F;
    const kernels::LaunchProfile profile;
    Sum{a, b, c, beta}.run();
    ASSERT_EQ(std::string_view(profile.entries().front().implementation), "narrow")
        << m << " " << n << " " << k;
    Sum{to(a, DType::f32), to(b, DType::f32), exact, beta}.run();
    const std::vector<float> ours = values(c), expected = values(exact);
    const float half_a_digit = dtype == DType::bf16 ? 1.0F / 256 : 1.0F / 2048;
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(ours[i], expected[i], std::fabs(expected[i]) * half_a_digit * 1.001F + 1e-4F)
          << m << " " << n << " " << k << " " << i;
  }
  kernels::set_bf16_dot_products(std::nullopt);
}

}  // namespace
}  // namespace ingot
