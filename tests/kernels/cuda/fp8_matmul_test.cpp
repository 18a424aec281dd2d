#include "ingot/kernels/fp8_matmul.h"

#include <cmath>
#include <optional>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/rng.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"

// Matmuls of 8-bit floats: the reference against matmuls of what the numbers stand for, the device against
// it.
namespace ingot {
namespace {

using kernels::Fp8MatmulArgs;
using testing::max_error;
using testing::randn;

using test::kDevice;

struct Problem {
  std::int64_t m, n, k;
  DType a = DType::f8e4m3, b = DType::f8e4m3, c = DType::f32;
  bool blocks = false, bias = false, accumulate = false;
};

std::int64_t blocks_of(std::int64_t size) { return (size + kernels::kFp8Block - 1) / kernels::kFp8Block; }

struct Operands {
  Tensor a, b, a_scale, b_scale, bias, c;

  explicit Operands(const Problem& p)
      : a(to(randn({p.m, p.k}, 1) * 3.0, p.a)),
        b(to(randn({p.n, p.k}, 2) * 3.0, p.b)),
        a_scale(positive(p.blocks ? Shape{p.m, blocks_of(p.k)} : Shape{1}, 3)),
        b_scale(positive(p.blocks ? Shape{blocks_of(p.n), blocks_of(p.k)} : Shape{1}, 4)),
        bias(p.bias ? randn({p.n}, 5, p.c) : Tensor{}),
        c(randn({p.m, p.n}, 6, p.c)) {}

  static Tensor positive(const Shape& shape, std::uint64_t seed) { return exp(randn(shape, seed)); }

  Tensor run(Device device, const Problem& p) const {
    const auto there = [&](const Tensor& x) { return x.defined() ? to(x, device) : x; };
    const Tensor on[] = {there(a), there(b), there(a_scale), there(b_scale), there(bias)};
    const Tensor result = device.is_cpu() ? clone(c) : to(c, device);
    launch(kernels::fp8_matmul, current_stream(device),
           {.a = on[0].view(),
            .b = on[1].view(),
            .c = result.view(),
            .a_scale = on[2].view(),
            .b_scale = on[3].view(),
            .bias = on[4].view(),
            .accumulate = p.accumulate});
    return to(to(result, DType::f32), kCpu);
  }
};

// x times its scales, [rows, k]; `row_block`: rows that share one.
Tensor scaled(const Tensor& x, const Tensor& scales, std::int64_t row_block) {
  Tensor y = to(x, DType::f32);
  const std::int64_t rows = x.dim(0), k = x.dim(1);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t d = 0; d < k; ++d) {
      const std::int64_t at = scales.rank() == 1 ? 0 : r / row_block * scales.dim(1) + d / kernels::kFp8Block;
      y.data<float>()[r * k + d] *= scales.data<float>()[at];
    }
  }
  return y;
}

std::vector<Problem> problems() {
  std::vector<Problem> list;
  for (const bool blocks : {false, true}) {
    for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{
             {1, 1, 1}, {3, 5, 16}, {17, 130, 128}, {64, 64, 300}, {2, 257, 129}}) {
      list.push_back({.m = m, .n = n, .k = k, .blocks = blocks});
    }
    list.push_back({.m = 16, .n = 32, .k = 200, .a = DType::f8e5m2, .blocks = blocks, .bias = true});
    list.push_back({.m = 16, .n = 32, .k = 200, .b = DType::f8e5m2, .blocks = blocks, .accumulate = true});
    list.push_back(
        {.m = 16, .n = 32, .k = 64, .c = DType::bf16, .blocks = blocks, .bias = true, .accumulate = true});
    list.push_back({.m = 16, .n = 32, .k = 64, .c = DType::f16, .blocks = blocks});
    list.push_back({.m = 64, .n = 256, .k = 640, .c = DType::bf16, .blocks = blocks});
    list.push_back({.m = 64, .n = 256, .k = 640, .blocks = blocks});
  }
  return list;
}

TEST(Fp8Matmul, TheReferenceMultipliesWhatTheNumbersStandFor) {
  for (const Problem& p : problems()) {
    const Operands o(p);
    Tensor expected = linear(scaled(o.a, o.a_scale, 1), scaled(o.b, o.b_scale, kernels::kFp8Block),
                             o.bias.defined() ? to(o.bias, DType::f32) : Tensor{});
    if (p.accumulate) expected = expected + to(o.c, DType::f32);
    // Relative to the largest result: sums of products up to a thousand, cancelling, in another order.
    const double size = std::max(1.0, max_error(expected, Tensor::zeros(expected.shape())));
    const double tolerance = p.c == DType::f32 ? 2e-6 : p.c == DType::f16 ? 1e-3 : 8e-3;
    EXPECT_LE(max_error(o.run(kCpu, p) * (1 / size), expected * (1 / size)), tolerance)
        << p.m << " x " << p.n << " x " << p.k;
  }
}

// The largest difference from the reference, as a part of the largest result.
double device_error(const Problem& p, bool ours) {
  const Operands o(p);
  const Tensor expected = o.run(kCpu, p), zero = Tensor::zeros(expected.shape());
  Tensor actual;
  {
    std::optional<kernels::ForceKind> forced;
    if (ours) forced.emplace(kernels::ImplKind::cuda);
    actual = o.run(kDevice, p);
  }
  return max_error(actual, expected) / std::max(1.0, max_error(expected, zero));
}

TEST(CudaFp8Matmul, EqualsTheReference) {
  for (const Problem& p : problems()) {
    const double tolerance = p.c == DType::f32 ? 2e-6 : p.c == DType::f16 ? 1e-3 : 8e-3;
    EXPECT_LE(device_error(p, true), tolerance) << p.m << " x " << p.n << " x " << p.k;
  }
}

// Where NVIDIA's library is there, it comes first. Tensor cores of sm_90 keep some 14 bits of a sum of 8-bit
// products (DeepSeek-V3 2024, section 3.3.2), whatever the dtype of the result.
TEST(CudaFp8Matmul, IsNearTheReferenceWithWhatComesFirst) {
  for (const Problem& p : problems()) {
    EXPECT_LE(device_error(p, false), p.c == DType::bf16 ? 8e-3 : 1e-3)
        << p.m << " x " << p.n << " x " << p.k;
  }
}

// Every number there is, against the host's conversion: products with 1.
TEST(CudaFp8Matmul, KnowsAllNumbers) {
  for (const DType dtype : {DType::f8e4m3, DType::f8e5m2}) {
    std::vector<std::uint8_t> codes(256);
    for (std::size_t i = 0; i < 256; ++i) codes[i] = static_cast<std::uint8_t>(i);
    const Tensor a = Tensor::from_bytes(std::as_bytes(std::span(codes)), {256, 1}, dtype, kDevice);
    const Tensor one = to(to(Tensor::from(std::vector<float>{1}, {1, 1}), DType::f8e4m3), kDevice);
    const Tensor scale = Tensor::from(std::vector<float>{1}, {1}, kDevice);
    const Tensor c = Tensor::empty({256, 1}, DType::f32, kDevice);
    launch(kernels::fp8_matmul, current_stream(kDevice),
           {.a = a.view(), .b = one.view(), .c = c.view(), .a_scale = scale.view(), .b_scale = scale.view()});
    const Tensor found = to(c, kCpu), expected = to(to(a, kCpu), DType::f32);
    for (std::size_t i = 0; i < 256; ++i) {
      const float x = found.data<float>()[i], e = expected.data<float>()[i];
      EXPECT_TRUE(x == e || (std::isnan(x) && std::isnan(e)))
          << name(dtype) << " " << i << ": " << x << ", not " << e;
    }
  }
}

}  // namespace
}  // namespace ingot
