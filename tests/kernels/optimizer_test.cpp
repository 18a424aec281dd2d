#include "ingot/kernels/optimizer.h"

#include <cmath>
#include <deque>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/parallel.h"

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

struct AdamState {
  std::vector<Tensor> p, g, m = tensors(200), v = tensors(300), master;

  explicit AdamState(DType dtype = DType::f32, bool with_master = false)
      : p(tensors(1, dtype)), g(tensors(100, dtype)) {
    if (with_master) master = tensors(1);
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

// Both round the same f32 result; where the two arithmetics differ by one f32 unit, the halves may be
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
        if (with_master) EXPECT_LT(max_error(fast.master[i], plain.master[i]), 1e-6) << kLengths[i];
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

TEST(AdamWKernel, AMasterWeightKeepsWhatAHalfParameterCannot) {
  const Tensor master = randn({50}, 1);
  const Tensor param = Tensor::empty({50}, DType::bf16), grad = Tensor::empty({50}, DType::bf16);
  const std::vector<float> before = master.to_vector<float>();
  for (int i = 0; i < 50; ++i) {
    param.data<bf16>()[i] = bf16(before[static_cast<std::size_t>(i)]);
    grad.data<bf16>()[i] = bf16(1.0F);
  }
  const Tensor m = Tensor::zeros({50}), v = Tensor::zeros({50});
  const kernels::AdamWTensor one[] = {{.param = param.view(),
                                       .grad = grad.view(),
                                       .m = m.view(),
                                       .v = v.view(),
                                       .master = master.view(),
                                       .lr = 1e-6,
                                       .bias_correction1 = 0.1,
                                       .bias_correction2 = 0.001}};
  launch(kernels::adamw, current_stream(kCpu), {.tensors = one});
  for (int i = 0; i < 50; ++i) {
    EXPECT_NEAR(master.data<float>()[i], before[static_cast<std::size_t>(i)] - 1e-6F, 3e-7F);
    EXPECT_EQ(param.data<bf16>()[i].bits, bf16(master.data<float>()[i]).bits);
  }
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
