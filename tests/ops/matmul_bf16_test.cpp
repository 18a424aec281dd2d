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

// Several blocks of rows and columns, and each layout of both operands.
TEST(Bf16Matmul, WidenedToF32IsRoundedOnce) {
  for (const auto& [m, n, k] : {std::tuple{700, 1100, 130}, {130, 70, 1040}, {520, 65, 64}}) {
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

}  // namespace
}  // namespace ingot
