// AdamW with moments in 8 bits: what codes and scales stand for, the same in every implementation.
#include <bit>
#include <cmath>

#include "tests/kernels/adamw_8bit_tensors.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/kernels/optimizer.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

using kernels::ForceKind;
using kernels::ImplKind;
using kernels::kMomentBlock;
using kernels::kSignedMap;
using kernels::kUnsignedMap;
using kernels::QuantMap8bit;
using testing::max_error;
using testing::randn;

struct State : test::AdamW8bitTensors {
  State(const Tensor& param, const Tensor& grad) {
    p = clone(param);
    g = grad;
    m = Tensor::zeros(p.shape(), DType::u8);
    v = Tensor::zeros(p.shape(), DType::u8);
    m_scale = Tensor::zeros({kernels::moment_blocks(p.numel())});
    v_scale = Tensor::zeros(m_scale.shape());
    if (p.dtype() == DType::bf16) master = Tensor::zeros(p.shape(), DType::i16);
  }
  void step(ImplKind kind, double beta1 = 0.9, double beta2 = 0.999) const {
    const ForceKind force(kind);
    const kernels::AdamWTensor one[] = {tensor()};
    launch(kernels::adamw, current_stream(kCpu), {.tensors = one, .beta1 = beta1, .beta2 = beta2});
  }
};

std::vector<std::uint32_t> bits(const Tensor& t) {
  std::vector<std::uint32_t> result;
  for (const float value : t.to_vector<float>()) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

// Gradients of every size that a map tells apart, with a block of zeros, one below the normal numbers, one
// with a NaN, one with an infinity, and a last one that is not whole.
Tensor grads_of_all_sizes() {
  const Tensor grad = randn({20 * kMomentBlock + 77}, 1);
  float* g = grad.data<float>();
  for (std::int64_t i = 0; i < grad.numel(); ++i) g[i] *= std::pow(10.0F, static_cast<float>(-(i % 9)));
  for (std::int64_t i = 0; i < kMomentBlock; ++i) {
    g[2 * kMomentBlock + i] = 0;
    g[3 * kMomentBlock + i] *= 1e-39F;
  }
  g[4 * kMomentBlock + 9] = NAN;
  g[5 * kMomentBlock + 200] = -INFINITY;
  return grad;
}

TEST(QuantMap8bit, GivesEveryNumberTheNearestOfItsValues) {
  for (const QuantMap8bit* map : {&kSignedMap, &kUnsignedMap}) {
    for (int i = 0; i <= 20000; ++i) {
      const float size = std::pow(10.0F, -8.0F * static_cast<float>(i) / 20000.0F);
      for (const float y : {size, map == &kSignedMap ? -size : 0.0F}) {
        const float chosen = map->values[kernels::moment_code(*map, y, 1)];
        float nearest = 2;
        for (const float value : map->values) nearest = std::min(nearest, std::abs(value - y));
        // Limits are rounded to f32: next to one, the other value may be nearer by that rounding.
        ASSERT_LE(std::abs(chosen - y), nearest + 0x1p-23F * std::abs(y)) << y;
      }
    }
  }
}

TEST(QuantMap8bit, HasEachOfItsValuesAsTheirCode) {
  for (const QuantMap8bit* map : {&kSignedMap, &kUnsignedMap})
    for (std::size_t code = 0; code < 256; ++code)
      EXPECT_EQ(kernels::moment_code(*map, map->values[code], 1), code);
  EXPECT_TRUE(std::ranges::all_of(kUnsignedMap.values, [](float value) { return value >= 0; }));
}

// With betas of 0 and no moments before, m is the gradient and v its square, to the last bit.
TEST(AdamW8bitKernel, SimdGivesTheCodesAndScalesOfTheReference) {
  const Tensor grad = grads_of_all_sizes(), param = randn(grad.shape(), 2);
  const State fast(param, grad), plain(param, grad);
  fast.step(ImplKind::simd, 0, 0);
  plain.step(ImplKind::reference, 0, 0);
  EXPECT_EQ(fast.m.to_vector<std::uint8_t>(), plain.m.to_vector<std::uint8_t>());
  EXPECT_EQ(fast.v.to_vector<std::uint8_t>(), plain.v.to_vector<std::uint8_t>());
  EXPECT_EQ(bits(fast.m_scale), bits(plain.m_scale));
  EXPECT_EQ(bits(fast.v_scale), bits(plain.v_scale));
}

TEST(AdamW8bitKernel, KeepsWithinTheMapsStepOfWhatItRounds) {
  const Tensor grad = randn({1000}, 1);
  const State state(randn({1000}, 2), grad);
  state.step(ImplKind::simd, 0, 0);
  for (std::int64_t i = 0; i < 1000; ++i) {
    const float scale = state.m_scale.data<float>()[i / kMomentBlock];
    const float m = kSignedMap.values[state.m.data<std::uint8_t>()[i]] * scale;
    // The last decade's parts are 0.9 / 64 wide, as are its ends; below they are finer.
    EXPECT_LE(std::abs(m - grad.data<float>()[i]), 0.0071F * scale) << i;
  }
}

TEST(AdamW8bitKernel, SimdStepsLikeTheReference) {
  const Tensor param = randn({70001}, 1), grad = randn({70001}, 2);
  State fast(param, grad), plain(param, grad);
  for (const std::uint64_t seed : {3, 4}) {
    fast.g = plain.g = randn({70001}, seed);
    fast.step(ImplKind::simd);
    plain.step(ImplKind::reference);
  }
  EXPECT_LT(max_error(fast.p, plain.p), 1e-6);
  // Their f32 arithmetic differs in the last bit, which is next to a limit of the map now and then.
  std::int64_t apart = 0;
  for (std::int64_t i = 0; i < fast.m.numel(); ++i) {
    const int m = fast.m.data<std::uint8_t>()[i] - plain.m.data<std::uint8_t>()[i];
    const int v = fast.v.data<std::uint8_t>()[i] - plain.v.data<std::uint8_t>()[i];
    ASSERT_LE(std::max(std::abs(m), std::abs(v)), 1) << i;
    apart += (m != 0 ? 1 : 0) + (v != 0 ? 1 : 0);
  }
  EXPECT_LE(apart, 14);  // of 140002
}

TEST(AdamW8bitKernel, Bf16ParametersWithMasterWeightsStepLikeF32Parameters) {
  const Tensor param = randn({5003}, 1, DType::bf16);
  for (const ImplKind kind : {ImplKind::simd, ImplKind::reference}) {
    const Tensor grad = randn({5003}, 2, DType::bf16);
    const State half(param, grad), full(to(param, DType::f32), grad);
    for (int step = 0; step < 3; ++step) {
      half.step(kind);
      full.step(kind);
    }
    for (std::int64_t i = 0; i < param.numel(); ++i)
      ASSERT_EQ(kernels::join_weight({half.p.data<bf16>()[i], half.master.data<std::int16_t>()[i]}),
                full.p.data<float>()[i]);
    EXPECT_EQ(half.m.to_vector<std::uint8_t>(), full.m.to_vector<std::uint8_t>());
  }
}

TEST(AdamW8bitKernel, BitsDoNotDependOnThreads) {
  const Tensor param = randn({70001}, 1), grad = randn({70001}, 2);
  const State one(param, grad), three(param, grad);
  const int threads = num_threads();
  for (int step = 0; step < 2; ++step) {
    set_num_threads(1);
    one.step(ImplKind::simd);
    set_num_threads(3);
    three.step(ImplKind::simd);
  }
  set_num_threads(threads);
  EXPECT_EQ(one.p.to_vector<float>(), three.p.to_vector<float>());
  EXPECT_EQ(one.v.to_vector<std::uint8_t>(), three.v.to_vector<std::uint8_t>());
}

TEST(AdamW8bitKernel, ANaNOrInfinityTurnsItsBlockToNaNAndNoOther) {
  for (const ImplKind kind : {ImplKind::simd, ImplKind::reference}) {
    const Tensor grad = grads_of_all_sizes();
    State state(randn(grad.shape(), 2), grad);
    state.step(kind);
    state.g = Tensor::zeros(grad.shape());
    state.step(kind);
    for (std::int64_t i = 0; i < grad.numel(); ++i) {
      const std::int64_t block = i / kMomentBlock;
      ASSERT_EQ(std::isnan(state.p.data<float>()[i]), block == 4 || block == 5) << i;
    }
    EXPECT_TRUE(std::isnan(state.m_scale.data<float>()[4]));
    EXPECT_TRUE(std::isnan(state.v_scale.data<float>()[5]));
  }
}

TEST(AdamW8bitKernel, ParametersWithoutAnyGradientYetOnlyDecay) {
  for (const ImplKind kind : {ImplKind::simd, ImplKind::reference}) {
    const Tensor param = randn({600}, 1);
    const State state(param, Tensor::zeros({600}));
    for (int step = 0; step < 2; ++step) state.step(kind);
    for (std::int64_t i = 0; i < 600; ++i)
      EXPECT_NEAR(state.p.data<float>()[i], param.data<float>()[i] * 0.999F * 0.999F, 1e-6F);
    EXPECT_EQ(state.m_scale.to_vector<float>(), std::vector<float>(3, 0));
    EXPECT_EQ(state.v_scale.to_vector<float>(), std::vector<float>(3, 0));
  }
}

TEST(AdamW8bitKernel, RefusesCodesWithoutScalesForAllBlocks) {
  const State small(randn({200}, 1), randn({200}, 2)), state(randn({600}, 1), randn({600}, 2));
  kernels::AdamWTensor one[] = {state.tensor()};
  one[0].v_scale = {};
  EXPECT_THROW(launch(kernels::adamw, current_stream(kCpu), {.tensors = one}), KernelError);
  one[0] = small.tensor();
  one[0].m_scale = {};
  EXPECT_THROW(launch(kernels::adamw, current_stream(kCpu), {.tensors = one}), KernelError);
  one[0] = state.tensor();
  const Tensor few = Tensor::zeros({2});
  one[0].m_scale = few.view();
  EXPECT_THROW(launch(kernels::adamw, current_stream(kCpu), {.tensors = one}), KernelError);
}

}  // namespace
}  // namespace ingot
