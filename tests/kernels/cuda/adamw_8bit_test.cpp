#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tests/kernels/adamw_8bit_tensors.h"
#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/core/backend.h"
#include "ingot/kernels/optimizer.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// AdamW with moments in 8 bits on the device, against the CPU's reference.
namespace ingot {
namespace {

using kernels::kMomentBlock;
using testing::randn;

using test::kDevice;

struct Kind {
  std::int64_t n;
  DType param = DType::bf16, grad = DType::bf16;
  bool master = true;
  std::int64_t skip = 0;  // elements between the beginning of the memory and that of each tensor
};

// Around a block, around what a lane and what a thread block has; every dtype; not aligned.
const std::vector<Kind> kKinds = {{1},
                                  {7},
                                  {255},
                                  {256},
                                  {257},
                                  {4096},
                                  {4097},
                                  {20003},
                                  {5000, DType::bf16, DType::bf16, true, 1},
                                  {5000, DType::bf16, DType::bf16, true, 4},
                                  {5003, DType::f32, DType::f32, false},
                                  {5003, DType::f32, DType::bf16, false, 3},
                                  {5003, DType::f16, DType::f16, true},
                                  {5003, DType::f16, DType::f32, false},
                                  {5003, DType::bf16, DType::bf16, false}};

struct State : test::AdamW8bitTensors {
  State(const Kind& kind, std::uint64_t seed, Device device) {
    const std::int64_t n = kind.n + kind.skip;
    p = placed(to(randn({n}, seed), kind.param), kind.skip, device);
    g = placed(to(sizes(n, seed + 1), kind.grad), kind.skip, device);
    m = placed(Tensor::zeros({n}, DType::u8), kind.skip, device);
    v = placed(Tensor::zeros({n}, DType::u8), kind.skip, device);
    m_scale = Tensor::zeros({kernels::moment_blocks(kind.n)}, DType::f32, device);
    v_scale = Tensor::zeros(m_scale.shape(), DType::f32, device);
    if (!kind.master) return;
    const DType kept = kernels::master_dtype(kind.param);
    master = kept == DType::i16 ? Tensor::zeros(p.shape(), kept, device) : to(p, kept);
  }
  static Tensor placed(const Tensor& whole, std::int64_t skip, Device device) {
    return slice(device.is_cpu() ? clone(whole) : to(whole, device), 0, skip);
  }
  // Gradients of all sizes, with a NaN, a block that vanishes and a few of zero.
  static Tensor sizes(std::int64_t n, std::uint64_t seed) {
    const Tensor grad = randn({n}, seed);
    float* g = grad.data<float>();
    for (std::int64_t i = 0; i < n; ++i) g[i] *= std::pow(10.0F, static_cast<float>(-(i % 7)));
    if (n < 5000) return grad;
    for (std::int64_t i = 0; i < 2 * kMomentBlock; ++i) g[4 * kMomentBlock + i] *= 1e-39F;
    g[2000] = NAN;
    return grad;
  }
};

std::vector<State> states(Device device) {
  std::vector<State> all;
  for (const Kind& kind : kKinds) all.emplace_back(kind, 10 * all.size(), device);
  return all;
}

void step(const std::vector<State>& states, double beta1 = 0.9, double beta2 = 0.999) {
  const kernels::ForceKind force(states[0].p.device().is_cpu() ? kernels::ImplKind::reference
                                                               : kernels::ImplKind::cuda);
  std::vector<kernels::AdamWTensor> list;
  for (const State& state : states) list.push_back(state.tensor());
  launch(kernels::adamw, current_stream(states[0].p.device()),
         {.tensors = list, .beta1 = beta1, .beta2 = beta2});
}

std::vector<std::uint8_t> codes(const Tensor& t) { return to(t, kCpu).to_vector<std::uint8_t>(); }

// A NaN is near a NaN.
void expect_near(const Tensor& actual, const Tensor& expected, double tolerance) {
  const auto a = to(to(actual, kCpu), DType::f32).to_vector<float>();
  const auto b = to(expected, DType::f32).to_vector<float>();
  for (std::size_t i = 0; i < b.size(); ++i) {
    ASSERT_EQ(std::isnan(a[i]), std::isnan(b[i])) << i;
    if (!std::isnan(b[i])) ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0F, std::abs(b[i]))) << i;
  }
}

// With betas of 0 and no moments before, m is the gradient and v its square, to the last bit.
TEST(CudaAdamW8bit, GivesTheCodesAndScalesOfTheCpu) {
  const std::vector<State> actual = states(kDevice), expected = states(kCpu);
  step(actual, 0, 0);
  step(expected, 0, 0);
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    EXPECT_EQ(codes(actual[i].m), codes(expected[i].m)) << i;
    EXPECT_EQ(codes(actual[i].v), codes(expected[i].v)) << i;
    expect_near(actual[i].m_scale, expected[i].m_scale, 0);
    expect_near(actual[i].v_scale, expected[i].v_scale, 0);
  }
}

std::int64_t apart(const Tensor& actual, const Tensor& expected) {
  std::int64_t count = 0;
  const auto a = codes(actual), b = codes(expected);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_LE(std::abs(a[i] - b[i]), 1) << i;
    count += a[i] != b[i] ? 1 : 0;
  }
  return count;
}

TEST(CudaAdamW8bit, StepsLikeTheCpu) {
  const std::vector<State> actual = states(kDevice), expected = states(kCpu);
  for (int i = 0; i < 2; ++i) {
    step(actual);
    step(expected);
  }
  std::int64_t count = 0, different = 0;
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    const double tolerance = kKinds[i].param == DType::f32    ? 2e-6
                             : kKinds[i].param == DType::bf16 ? 0x1p-6
                                                              : 0x1p-9;
    expect_near(actual[i].p, expected[i].p, tolerance);
    // A GPU's arithmetic may differ in the last bit, which is next to a limit of the map now and then.
    different += apart(actual[i].m, expected[i].m) + apart(actual[i].v, expected[i].v);
    count += 2 * kKinds[i].n;
  }
  EXPECT_LE(different, count / 1000);
}

}  // namespace
}  // namespace ingot
