#include "ingot/ops/pointwise.h"

#include <string>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/cuda/elementwise/pointwise_source.h"
#include "ingot/kernels/cuda/runtime/nvrtc.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"

namespace ingot {
namespace {

using kernels::cuda::pointwise_source;
using testing::max_error;
using testing::randn;

using test::kDevice;

// Every operation behind another one, so that a compiler that joined two of them would show.
const auto kUnary = [](const auto& x) {
  const auto a = abs(x) + 0.5;
  auto y = exp(-a) + log(a) + sqrt(a) + rsqrt(a) + square(x) + reciprocal(a);
  y = y + sin(x) + cos(x) + sigmoid(x) + tanh(x) + relu(x) + silu(x);
  y = y + gelu_erf(x) + gelu_tanh(x) + mish(x) + softplus(x) + pow(a, 1.5) + clamp(x, -0.5, 0.25);
  y = y + erf(x) + leaky_relu(x, 0.3) + elu(x, 1.5);
  y = y + floor(x) + ceil(x) + round(x) + sign(x);
  return y + scale(x, 0.044715, 1);  // gelu_tanh takes that product, too
};
const auto kBinary = [](const auto& a, const auto& b) {
  const auto product = a * b;
  return maximum(product + a, b - product) / (square(b) + 1.0) + minimum(product, a) * b - a;
};

template <class F>
std::vector<kernels::PointwiseStep> steps_of(const F& formula) {
  PointwiseTrace trace(1);
  static_cast<void>(formula(Symbol{&trace, 0}));
  return trace.steps();
}

struct Result {
  Tensor y;
  std::vector<Tensor> gradients;
};

template <class F>
Result run(const F& formula, DType dtype, bool fused, std::int64_t count) {
  const FusionScope scope(fused);
  Tensor a = to(randn({count}, 1, dtype), kDevice), b = to(randn({count}, 2, dtype), kDevice);
  a.set_requires_grad(true);
  b.set_requires_grad(true);
  Result result;
  const Tensor y = formula(a, b);
  BackwardOptions options;
  options.grad = to(randn({count}, 3, dtype), kDevice);
  backward(y, options);
  result.y = to(to(y.detach(), kCpu), DType::f32);
  for (const Tensor& x : {a, b}) {
    if (x.grad().defined()) result.gradients.push_back(to(to(x.grad(), kCpu), DType::f32));
  }
  return result;
}

class CudaPointwise : public ::testing::Test {
 protected:
  void SetUp() override {
    if (backend(kDevice).kernel_executor() == nullptr) GTEST_SKIP() << kernels::cuda::nvrtc::problem();
  }
};

TEST_F(CudaPointwise, HasTheBitsOfTheOperations) {
  const auto unary = [](const Tensor& a, const Tensor&) { return pointwise(kUnary, a); };
  const auto binary = [](const Tensor& a, const Tensor& b) { return pointwise(kBinary, a, b); };
  const auto check = [](const auto& formula, DType dtype) {
    for (const std::int64_t count : {1000, 1003}) {
      const Result on = run(formula, dtype, true, count), off = run(formula, dtype, false, count);
      EXPECT_EQ(max_error(on.y, off.y), 0.0) << name(dtype);
      ASSERT_EQ(on.gradients.size(), off.gradients.size());
      for (std::size_t i = 0; i < on.gradients.size(); ++i)
        EXPECT_EQ(max_error(on.gradients[i], off.gradients[i]), 0.0) << name(dtype) << " gradient " << i;
    }
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    check(unary, dtype);
    check(binary, dtype);
  }
}

TEST_F(CudaPointwise, IsOneKernelThereAndOneForEachGradient) {
  const auto launches = [](bool fused) {
    const kernels::LaunchProfile profile;
    run([](const Tensor& a, const Tensor& b) { return pointwise(kBinary, a, b); }, DType::f32, fused, 64);
    std::int64_t chains = 0, others = 0;
    for (const auto& entry : profile.entries()) {
      const std::string kernel = entry.kernel;
      if (kernel == "pointwise") chains += entry.launches;
      if (kernel.starts_with("unary") || kernel.starts_with("binary")) others += entry.launches;
    }
    return std::pair(chains, others);
  };
  EXPECT_EQ(launches(true), (std::pair<std::int64_t, std::int64_t>{3, 0}));
  EXPECT_EQ(launches(false).first, 0);
  EXPECT_GT(launches(false).second, 10);
}

TEST_F(CudaPointwise, LeavesSmallAndScatteredTensorsToTheOperations) {
  const Tensor small = Tensor::empty({kFusedElements - 1}, DType::f32, kDevice);
  const Tensor large = Tensor::empty({kFusedElements}, DType::f32, kDevice);
  const Tensor other = Tensor::empty({kFusedElements}, DType::bf16, kDevice);
  View transposed = large.view();
  transposed.rank = 2;
  transposed.shape = {256, kFusedElements / 256};
  transposed.strides = {1, 256};
  const Tensor scattered(large.storage(), transposed);
  EXPECT_FALSE(fuses(std::array{&small}));
  EXPECT_TRUE(fuses(std::array{&large}));
  EXPECT_FALSE(fuses(std::array{&large, &other}));
  EXPECT_FALSE(fuses(std::array{&scattered}));
  const FusionScope off(false);
  EXPECT_FALSE(fuses(std::array{&large}));
}

TEST_F(CudaPointwise, AFusedChainIsMadeAgainByItsKernel) {
  const FusionScope on(true);
  const auto geglu = [](const auto& gate, const auto& up) { return gelu_tanh(gate) * up; };
  const MemoryTracker& memory = backend(kDevice).memory();
  constexpr std::int64_t kWidth = 32;
  const auto leaf = [](std::uint64_t seed) {
    Tensor x = to(randn({kWidth, kWidth}, seed, DType::bf16), kDevice);
    x.set_requires_grad(true);
    return x;
  };
  const Tensor leaves[] = {leaf(1), leaf(2), leaf(3)};
  std::size_t kept = 0;
  const auto gradients = [&](bool selective) {
    for (const Tensor& x : leaves) x.set_grad({});
    const std::size_t before = memory.allocated();
    Tensor loss;
    {
      const SelectiveRecompute scope(selective);
      loss = sum(linear(pointwise(geglu, leaves[0], leaves[1]), leaves[2]));
    }
    kept = memory.allocated() - before;
    backward(loss);
    std::vector<std::vector<float>> values;
    for (const Tensor& x : leaves) values.push_back(to(to(x.grad(), kCpu), DType::f32).to_vector<float>());
    return values;
  };
  const auto expected = gradients(false);
  const std::size_t plain = kept;
  EXPECT_EQ(gradients(true), expected);
  EXPECT_EQ(plain - kept, leaves[0].nbytes());
}

TEST(PointwiseSource, IsALineForEachStep) {
  const auto steps = steps_of([](const auto& x) { return tanh(x * 0.5) * x; });
  const std::string f32 = pointwise_source(steps, 1, DType::f32, false);
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(f32, "using T = float;"));
  EXPECT_TRUE(has(f32,
                  "  const float v0 = to_float(a0);\n"
                  "  const float v1 = rounded(scaled(v0, as_float(0x3f000000U), as_float(0x00000000U)));\n"
                  "  const float v2 = rounded(tanhf(v1));\n"
                  "  const float v3 = (__fmul_rn(v2, v0));\n"
                  "  return from_float<T>(v3);\n"))
      << f32;
  EXPECT_TRUE(has(f32, "ingot_pointwise(const T* x0, T* y, long long n)"));
  EXPECT_EQ(pointwise_source(steps, 1, DType::f32, false), f32);
  const std::string half = pointwise_source(steps, 1, DType::f16, true);
  EXPECT_TRUE(has(half, "using T = half_t;"));
  EXPECT_TRUE(has(half, "  return from_float<T>(__fadd_rn(to_float(old), v3));\n")) << half;
}

// NVRTC needs no GPU, and what we give it no headers: machines that run programs have few.
TEST(PointwiseSource, CompilesForAGpuWithoutTheToolkit) {
  if (!kernels::cuda::nvrtc::problem().empty()) GTEST_SKIP() << kernels::cuda::nvrtc::problem();
  ::setenv("CUDA_HOME", "/nowhere", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  struct Restored {
    ~Restored() { ::unsetenv("CUDA_HOME"); }  // NOLINT(concurrency-mt-unsafe)
  } const restored;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool accumulate : {false, true}) {
      const std::string source = pointwise_source(steps_of(kUnary), 1, dtype, accumulate);
      EXPECT_FALSE(
          kernels::cuda::nvrtc::compile(source, kernels::cuda::kPointwiseFunction, "sm_90a").empty());
    }
  }
  using kernels::PointwiseStep;
  std::vector<PointwiseStep> derivatives;  // of every operation
  for (int op = 0; op < kernels::kUnaryOps; ++op)
    derivatives.push_back({.kind = PointwiseStep::Kind::unary_backward,
                           .unary = static_cast<kernels::UnaryOp>(op),
                           .a = op,
                           .b = 0});
  for (const kernels::BinaryOp op :
       {kernels::BinaryOp::div, kernels::BinaryOp::maximum, kernels::BinaryOp::minimum})
    derivatives.push_back(
        {.kind = PointwiseStep::Kind::binary_backward, .binary = op, .a = 0, .b = 1, .c = 2});
  const std::string source = pointwise_source(derivatives, 1, DType::f32, false);
  EXPECT_FALSE(kernels::cuda::nvrtc::compile(source, kernels::cuda::kPointwiseFunction, "sm_90a").empty());
}

}  // namespace
}  // namespace ingot
