#include "ingot/kernels/optimizer.h"

#include <bit>
#include <cmath>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

using kernels::ForceKind;
using kernels::ImplKind;
using testing::max_error;
using testing::randn;

// Awkward on purpose: empty, one element, under and over a register, a block and the parallel grain.
const std::vector<std::int64_t> kLengths = {0, 1, 3, 16, 17, 1023, 1025, 40000, 70001};

std::vector<Tensor> tensors(std::uint64_t seed, DType dtype = DType::f32) {
  std::vector<Tensor> result;
  for (const std::int64_t n : kLengths) result.push_back(randn({n}, seed++, dtype));
  return result;
}

// Of a half parameter that nothing has changed yet.
Tensor fresh_master(const Tensor& param) {
  return param.dtype() == DType::bf16 ? Tensor::zeros(param.shape(), DType::i16) : to(param, DType::f32);
}

// The f32 weights that a half parameter and its master stand for.
Tensor master_of(const Tensor& param, const Tensor& master) {
  if (master.dtype() == DType::f32) return master;
  const Tensor joined = Tensor::empty(param.shape());
  for (std::int64_t i = 0; i < param.numel(); ++i)
    joined.data<float>()[i] = kernels::join_weight({param.data<bf16>()[i], master.data<std::int16_t>()[i]});
  return joined;
}

struct AdamState {
  std::vector<Tensor> p, g, m = tensors(200), v = tensors(300), master;

  explicit AdamState(DType dtype = DType::f32, bool with_master = false)
      : p(tensors(1, dtype)), g(tensors(100, dtype)) {
    if (with_master)
      for (const Tensor& t : p) master.push_back(fresh_master(t));
    for (const Tensor& t : v) {
      for (std::int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = std::abs(t.data<float>()[i]);
    }
  }
  void step(ImplKind kind, bool decoupled, const Tensor& grad_scale = {}) {
    const ForceKind force(kind);
    std::vector<kernels::AdamWTensor> list;
    for (std::size_t i = 0; i < p.size(); ++i) {
      list.push_back({.param = p[i].view(),
                      .grad = g[i].view(),
                      .m = m[i].view(),
                      .v = v[i].view(),
                      .master = master.empty() ? View{} : master[i].view(),
                      .lr = 0.01 * static_cast<double>(i + 1),
                      .weight_decay = i % 2 == 0 ? 0.1 : 0.0,
                      .bias_correction1 = 0.271,
                      .bias_correction2 = 0.002997});
    }
    launch(kernels::adamw, current_stream(kCpu),
           {.tensors = list, .decoupled = decoupled, .grad_scale = grad_scale.view()});
  }
};

TEST(AdamWKernel, SimdEqualsTheReferenceOnManyTensors) {
  for (const bool decoupled : {true, false}) {
    AdamState fast, plain;
    const Tensor half = Tensor::scalar(0.5F);
    for (const Tensor& scale : {Tensor(), half}) {
      fast.step(ImplKind::simd, decoupled, scale);
      plain.step(ImplKind::reference, decoupled, scale);
    }
    for (std::size_t i = 0; i < kLengths.size(); ++i) {
      EXPECT_LT(max_error(fast.p[i], plain.p[i]), 1e-6) << kLengths[i];
      EXPECT_LT(max_error(fast.m[i], plain.m[i]), 1e-6) << kLengths[i];
      EXPECT_LT(max_error(fast.v[i], plain.v[i]), 1e-6) << kLengths[i];
    }
  }
}

// Both round the same f32 result; where the two arithmetics differ by one f32 unit, the 16-bit results may be
// neighbours.
double neighbour_of_half(DType dtype) { return dtype == DType::bf16 ? 0x1p-6 : 0x1p-9; }

TEST(AdamWKernel, SimdEqualsTheReferenceOnHalfTypesWithAndWithoutMasterWeights) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const bool with_master : {false, true}) {
      AdamState fast(dtype, with_master), plain(dtype, with_master);
      fast.step(ImplKind::simd, true);
      plain.step(ImplKind::reference, true);
      for (std::size_t i = 0; i < kLengths.size(); ++i) {
        EXPECT_LE(max_error(fast.p[i], plain.p[i]), 2 * neighbour_of_half(dtype)) << kLengths[i];
        EXPECT_LT(max_error(fast.m[i], plain.m[i]), 1e-6) << kLengths[i];
        EXPECT_LT(max_error(fast.v[i], plain.v[i]), 1e-6) << kLengths[i];
        if (with_master)
          EXPECT_LT(max_error(master_of(fast.p[i], fast.master[i]), master_of(plain.p[i], plain.master[i])),
                    1e-6)
              << kLengths[i];
      }
    }
  }
}

TEST(AdamWKernel, BitsDoNotDependOnThreadsOrOnTheOtherTensors) {
  const int threads = num_threads();
  AdamState one, three;
  set_num_threads(1);
  one.step(ImplKind::simd, true);
  set_num_threads(3);
  three.step(ImplKind::simd, true);
  set_num_threads(threads);
  for (std::size_t i = 0; i < kLengths.size(); ++i) {
    EXPECT_EQ(one.p[i].to_vector<float>(), three.p[i].to_vector<float>());
  }
}

// Every f32 of each exponent and sign, by a spread of its upper bits and all that rounding looks at.
TEST(MasterWeight, EveryF32IsABf16And16BitsMore) {
  for (std::uint32_t upper = 0; upper < 0x10000; upper += 7) {
    for (const std::uint32_t lower : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const std::uint32_t bits = (upper << 16) + lower;
      const auto master = std::bit_cast<float>(bits);
      const kernels::SplitWeight split = kernels::split_weight(master);
      if (std::isnan(master)) {
        EXPECT_EQ(split.param.bits, bf16(master).bits) << bits;
        EXPECT_EQ(split.remainder, 0) << bits;
        EXPECT_TRUE(std::isnan(kernels::join_weight(split))) << bits;
        continue;
      }
      ASSERT_EQ(std::bit_cast<std::uint32_t>(kernels::join_weight(split)), bits);
      // bf16(float) rounds ties to even, this away from zero.
      const bool tie = lower == 0x8000;
      ASSERT_EQ(split.param.bits, tie ? upper + 1 : bf16(master).bits) << bits;
    }
  }
}

// What makes the master weights of bf16 parameters exact: their steps have the bits of f32 parameters' steps.
TEST(AdamWKernel, Bf16ParametersWithMasterWeightsStepLikeF32Parameters) {
  for (const ImplKind kind : {ImplKind::simd, ImplKind::reference}) {
    AdamState half(DType::bf16, true), full;
    for (std::size_t i = 0; i < kLengths.size(); ++i) {
      full.p[i] = to(half.p[i], DType::f32);
      full.g[i] = half.g[i];
    }
    for (int step = 0; step < 3; ++step) {
      half.step(kind, true);
      full.step(kind, true);
    }
    for (std::size_t i = 0; i < kLengths.size(); ++i) {
      EXPECT_EQ(master_of(half.p[i], half.master[i]).to_vector<float>(), full.p[i].to_vector<float>());
      for (std::int64_t k = 0; k < kLengths[i]; ++k)
        ASSERT_EQ(half.p[i].data<bf16>()[k].bits,
                  kernels::split_weight(full.p[i].data<float>()[k]).param.bits);
    }
  }
}

TEST(AdamWKernel, NaNAndInfinityOfABf16ParameterPassIntoItAndItsMaster) {
  const std::vector<float> grads = {NAN, INFINITY, 1.0F};
  for (const ImplKind kind : {ImplKind::simd, ImplKind::reference}) {
    const ForceKind force(kind);
    const Tensor param = Tensor::zeros({3}, DType::bf16), master = Tensor::zeros({3}, DType::i16);
    const Tensor m = Tensor::zeros({3}), v = Tensor::zeros({3}), grad = Tensor::from(grads, {3});
    param.data<bf16>()[1] = bf16(INFINITY);
    const kernels::SgdTensor one[] = {
        {.param = param.view(), .grad = grad.view(), .master = master.view(), .lr = 1}};
    launch(kernels::sgd, current_stream(kCpu), {.tensors = one});
    EXPECT_TRUE(std::isnan(static_cast<float>(param.data<bf16>()[0])));
    EXPECT_TRUE(std::isnan(static_cast<float>(param.data<bf16>()[1])));  // infinity less infinity
    EXPECT_EQ(static_cast<float>(param.data<bf16>()[2]), -1.0F);
    EXPECT_EQ(master.to_vector<std::int16_t>(), std::vector<std::int16_t>(3, 0));
  }
}

TEST(AdamWKernel, AMasterWeightIsOfTheDtypeThatItsParameterAsksFor) {
  const Tensor param = Tensor::zeros({3}, DType::bf16), grad = Tensor::zeros({3}, DType::bf16),
               m = Tensor::zeros({3}), v = Tensor::zeros({3}), master = Tensor::zeros({3});
  const kernels::AdamWTensor one[] = {
      {.param = param.view(), .grad = grad.view(), .m = m.view(), .v = v.view(), .master = master.view()}};
  EXPECT_THROW(launch(kernels::adamw, current_stream(kCpu), {.tensors = one}), KernelError);
}

TEST(SgdKernel, SimdEqualsTheReferenceInEveryForm) {
  struct Form {
    double momentum, dampening;
    bool nesterov;
  };
  for (const Form& form : {Form{0, 0, false}, {0.9, 0, false}, {0.9, 0.3, false}, {0.9, 0, true}}) {
    std::vector<std::vector<Tensor>> results;
    for (const ImplKind kind : {ImplKind::simd, ImplKind::reference}) {
      const auto p = tensors(1), g = tensors(100), b = tensors(200);
      const ForceKind force(kind);
      for (const bool first : {true, false}) {
        std::vector<kernels::SgdTensor> list;
        for (std::size_t i = 0; i < p.size(); ++i) {
          list.push_back({.param = p[i].view(),
                          .grad = g[i].view(),
                          .momentum = form.momentum != 0 ? b[i].view() : View{},
                          .lr = 0.1,
                          .weight_decay = 0.01 * static_cast<double>(i),
                          .first = first});
        }
        launch(kernels::sgd, current_stream(kCpu),
               {.tensors = list,
                .momentum = form.momentum,
                .dampening = form.dampening,
                .nesterov = form.nesterov});
      }
      results.push_back(p);
    }
    for (std::size_t i = 0; i < kLengths.size(); ++i)
      EXPECT_LT(max_error(results[0][i], results[1][i]), 1e-6);
  }
}

TEST(SgdKernel, Bf16ParametersWithMasterWeightsStepLikeF32Parameters) {
  for (const ImplKind kind : {ImplKind::simd, ImplKind::reference}) {
    const auto half = tensors(1, DType::bf16), g = tensors(100, DType::bf16);
    const auto b = tensors(200), other = tensors(200);
    std::vector<Tensor> full, master;
    std::vector<kernels::SgdTensor> halves, fulls;
    for (std::size_t i = 0; i < half.size(); ++i) {
      full.push_back(to(half[i], DType::f32));
      master.push_back(fresh_master(half[i]));
      halves.push_back({.param = half[i].view(),
                        .grad = g[i].view(),
                        .momentum = b[i].view(),
                        .master = master[i].view(),
                        .lr = 0.1,
                        .weight_decay = 0.01});
      fulls.push_back({.param = full[i].view(),
                       .grad = g[i].view(),
                       .momentum = other[i].view(),
                       .lr = 0.1,
                       .weight_decay = 0.01});
    }
    const ForceKind force(kind);
    for (int step = 0; step < 3; ++step) {
      launch(kernels::sgd, current_stream(kCpu), {.tensors = halves, .momentum = 0.9});
      launch(kernels::sgd, current_stream(kCpu), {.tensors = fulls, .momentum = 0.9});
    }
    for (std::size_t i = 0; i < half.size(); ++i)
      EXPECT_EQ(master_of(half[i], master[i]).to_vector<float>(), full[i].to_vector<float>());
  }
}

struct Norm {
  float norm = 0, clip = 0;
};

Norm global_norm_of(const std::vector<Tensor>& list, ImplKind kind, double max_norm = 1) {
  const ForceKind force(kind);
  std::vector<View> views;
  for (const Tensor& tensor : list) views.push_back(tensor.view());
  const Tensor partials = Tensor::empty({kernels::norm_partials(views)}, DType::f64);
  const Tensor norm = Tensor::empty({}), clip = Tensor::empty({});
  launch(kernels::global_norm, current_stream(kCpu),
         {.tensors = views,
          .partials = partials.view(),
          .norm = norm.view(),
          .clip = clip.view(),
          .max_norm = max_norm});
  return {*norm.data<float>(), *clip.data<float>()};
}

TEST(GlobalNormKernel, SimdEqualsTheReference) {
  const auto list = tensors(5);
  const Norm fast = global_norm_of(list, ImplKind::simd), plain = global_norm_of(list, ImplKind::reference);
  EXPECT_NEAR(fast.norm / plain.norm, 1, 1e-6);
  EXPECT_NEAR(plain.clip, 1 / (plain.norm + 1e-6), 1e-9);
  EXPECT_EQ(global_norm_of(list, ImplKind::simd, 1e6).clip, 1.0F);
  EXPECT_EQ(global_norm_of({}, ImplKind::simd).norm, 0.0F);
}

TEST(GlobalNormKernel, SimdEqualsTheReferenceOnHalfTypes) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto list = tensors(5, dtype);
    EXPECT_NEAR(global_norm_of(list, ImplKind::simd).norm / global_norm_of(list, ImplKind::reference).norm, 1,
                1e-6);
  }
}

TEST(GlobalNormKernel, StaysExactOverMillionsOfElements) {
  const Tensor x = Tensor::empty({3'000'001});
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = 0.001F;
  const double expected = static_cast<double>(0.001F) * std::sqrt(3'000'001.0);
  EXPECT_NEAR(global_norm_of({x}, ImplKind::simd).norm / expected, 1, 1e-6);
}

TEST(GlobalNormKernel, BitsDoNotDependOnThreads) {
  const auto list = tensors(5);
  const int threads = num_threads();
  set_num_threads(1);
  const float one = global_norm_of(list, ImplKind::simd).norm;
  set_num_threads(3);
  EXPECT_EQ(global_norm_of(list, ImplKind::simd).norm, one);
  set_num_threads(threads);
}

TEST(GlobalNormKernel, ShowsNaNAndInfinity) {
  for (const ImplKind kind : {ImplKind::simd, ImplKind::reference}) {
    const Tensor x = randn({100}, 1);
    x.data<float>()[37] = INFINITY;
    EXPECT_TRUE(std::isinf(global_norm_of({x}, kind).norm));
    EXPECT_EQ(global_norm_of({x}, kind).clip, 0.0F);
    x.data<float>()[37] = NAN;
    EXPECT_TRUE(std::isnan(global_norm_of({x}, kind).norm));
    EXPECT_TRUE(std::isnan(global_norm_of({x}, kind).clip));
  }
}

TEST(ScaleAllKernel, ScalesAndClampsEveryTensor) {
  for (const ImplKind kind : {ImplKind::simd, ImplKind::reference}) {
    const auto x = tensors(5), original = tensors(5);
    const ForceKind force(kind);
    x.back().data<float>()[70000] = NAN;
    std::vector<View> views;
    for (const Tensor& tensor : x) views.push_back(tensor.view());
    const Tensor factor = Tensor::scalar(0.5F);
    launch(kernels::scale_all, current_stream(kCpu),
           {.tensors = views, .factor = factor.view(), .limit = 0.25});
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::int64_t i = 0; i < x[t].numel() && i < 70000; ++i) {
        ASSERT_EQ(x[t].data<float>()[i], std::clamp(original[t].data<float>()[i] * 0.5F, -0.25F, 0.25F));
      }
    }
    EXPECT_TRUE(std::isnan(x.back().data<float>()[70000])) << "clamping must not hide a NaN";
  }
}

TEST(LerpAllKernel, MovesTowardsTheOther) {
  for (const ImplKind kind : {ImplKind::simd, ImplKind::reference}) {
    const auto from = tensors(5), to = tensors(50), original = tensors(50);
    const ForceKind force(kind);
    std::vector<kernels::LerpTensor> list;
    for (std::size_t i = 0; i < from.size(); ++i) list.push_back({from[i].view(), to[i].view()});
    launch(kernels::lerp_all, current_stream(kCpu), {.tensors = list, .weight = 0.25});
    for (std::size_t t = 0; t < from.size(); ++t) {
      for (std::int64_t i = 0; i < from[t].numel(); ++i) {
        const float expected = 0.75F * original[t].data<float>()[i] + 0.25F * from[t].data<float>()[i];
        ASSERT_NEAR(to[t].data<float>()[i], expected, 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace ingot
