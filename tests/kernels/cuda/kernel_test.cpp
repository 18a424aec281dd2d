#include <cmath>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/check.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/index.h"
#include "ingot/kernels/loss.h"
#include "ingot/kernels/optimizer.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/view.h"

// Kernels that no op case reaches, against the CPU's on the same data: optimiser steps, random numbers,
// checks.
namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

using test::kDevice;

// Empty, one element, around a pack, around a chunk.
const std::vector<std::int64_t> kSizes = {0, 1, 3, 8, 17, 1025, 16384, 16385, 40000};

using Tensors = std::vector<Tensor>;

Tensors random_tensors(std::uint64_t seed, DType dtype = DType::f32) {
  Tensors result;
  for (const std::int64_t n : kSizes) result.push_back(randn({n}, seed++, dtype));
  return result;
}
Tensors magnitudes(std::uint64_t seed) {
  Tensors result = random_tensors(seed);
  for (const Tensor& t : result)
    for (std::int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = std::abs(t.data<float>()[i]);
  return result;
}
Tensors copies(const Tensors& from, Device device) {
  Tensors result;
  for (const Tensor& t : from) result.push_back(device.is_cpu() ? clone(t) : to(t, device));
  return result;
}
void expect_equal(const Tensors& actual, const Tensors& expected, double tolerance, const char* what) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(max_error(actual[i], expected[i]), tolerance) << what << " of " << kSizes[i];
}
std::vector<View> views(const Tensors& tensors) {
  std::vector<View> list;
  for (const Tensor& t : tensors) list.push_back(t.view());
  return list;
}

struct AdamW {
  Tensors p, g, m, v, master;
  void step(Device device, bool decoupled) const {
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
    const Tensor scale = Tensor::scalar(0.5F, device);
    launch(kernels::adamw, current_stream(device),
           {.tensors = list, .decoupled = decoupled, .grad_scale = scale.view()});
  }
  AdamW on(Device device) const {
    return {copies(p, device), copies(g, device), copies(m, device), copies(v, device),
            copies(master, device)};
  }
};

TEST(CudaOptimizer, AdamWEqualsTheCpu) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool decoupled : {true, false}) {
      const AdamW start{random_tensors(1, dtype), random_tensors(100, dtype), random_tensors(200),
                        magnitudes(300), dtype == DType::f32 ? Tensors{} : random_tensors(1)};
      const AdamW expected = start.on(kCpu), actual = start.on(kDevice);
      for (int step = 0; step < 2; ++step) {
        expected.step(kCpu, decoupled);
        actual.step(kDevice, decoupled);
      }
      expect_equal(actual.m, expected.m, 1e-6, "m");
      expect_equal(actual.v, expected.v, 1e-6, "v");
      expect_equal(actual.master, expected.master, 2e-6, "master");
      // The same f32 result but for its last bit, which may round to a neighbour in a half type.
      expect_equal(actual.p, expected.p,
                   dtype == DType::f32    ? 2e-6
                   : dtype == DType::bf16 ? 0x1p-6
                                          : 0x1p-9,
                   "param");
    }
  }
}

// Tensors of several dtypes in one call, one of them not aligned: as each by itself.
TEST(CudaOptimizer, AdamWTakesTensorsOfSeveralKinds) {
  const std::int64_t n = 5003;
  struct Kind {
    DType param, grad;
    bool master;
    std::int64_t skip;
  };
  const Kind kinds[] = {{DType::f32, DType::f32, false, 0},
                        {DType::bf16, DType::bf16, true, 0},
                        {DType::f32, DType::bf16, false, 1},
                        {DType::f16, DType::f32, false, 0},
                        {DType::bf16, DType::bf16, true, 3}};
  const auto step = [&](Device device) {
    Tensors all;
    std::vector<kernels::AdamWTensor> list;
    const auto there = [&](std::uint64_t seed, DType dtype, std::int64_t skip) {
      const Tensor whole = to(randn({n + skip}, seed), dtype);
      all.push_back(slice(device.is_cpu() ? clone(whole) : to(whole, device), 0, skip));
      return all.back().view();
    };
    for (const Kind& kind : kinds) {
      const View param = there(1, kind.param, kind.skip), grad = there(2, kind.grad, kind.skip);
      const View m = there(3, DType::f32, kind.skip);
      const Tensor squares = mul(all.back(), all.back());
      all.push_back(squares);
      list.push_back({.param = param,
                      .grad = grad,
                      .m = m,
                      .v = squares.view(),
                      .master = kind.master ? there(1, DType::f32, kind.skip) : View{},
                      .lr = 0.01,
                      .weight_decay = 0.1,
                      .bias_correction1 = 0.271,
                      .bias_correction2 = 0.002997});
    }
    launch(kernels::adamw, current_stream(device), {.tensors = list});
    return all;
  };
  const Tensors actual = step(kDevice), expected = step(kCpu);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(max_error(actual[i], expected[i]), expected[i].dtype() == DType::f32 ? 2e-6 : 0x1p-6) << i;
}

TEST(CudaOptimizer, SgdEqualsTheCpu) {
  for (const bool nesterov : {true, false}) {
    for (const bool first : {true, false}) {
      const Tensors p = random_tensors(1), g = random_tensors(50), b = random_tensors(90);
      const auto step = [&](Device device) {
        const Tensors params = copies(p, device), grads = copies(g, device), buffers = copies(b, device);
        std::vector<kernels::SgdTensor> list;
        for (std::size_t i = 0; i < p.size(); ++i)
          list.push_back({.param = params[i].view(),
                          .grad = grads[i].view(),
                          .momentum = buffers[i].view(),
                          .lr = 0.1,
                          .weight_decay = 0.01,
                          .first = first});
        launch(kernels::sgd, current_stream(device),
               {.tensors = list, .momentum = 0.9, .dampening = 0.1, .nesterov = nesterov});
        return params;
      };
      expect_equal(step(kDevice), step(kCpu), 1e-6, "param");
    }
  }
}

TEST(CudaOptimizer, GlobalNormScaleAndLerpEqualTheCpu) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Tensors start = random_tensors(7, dtype), ema = random_tensors(70);
    const auto run = [&](Device device) {
      const Tensors x = copies(start, device), average = copies(ema, device);
      const std::vector<View> list = views(x);
      const Tensor partials = Tensor::empty({kernels::norm_partials(list)}, DType::f64, device);
      const Tensor norm = Tensor::empty({1}, DType::f32, device),
                   clip = Tensor::empty({1}, DType::f32, device);
      const Stream stream = current_stream(device);
      launch(kernels::global_norm, stream,
             {.tensors = list,
              .partials = partials.view(),
              .norm = norm.view(),
              .clip = clip.view(),
              .max_norm = 1.5});
      launch(kernels::scale_all, stream, {.tensors = list, .factor = clip.view(), .limit = 0.01});
      std::vector<kernels::LerpTensor> lerps;
      for (std::size_t i = 0; i < x.size(); ++i)
        lerps.push_back({.from = x[i].view(), .to = average[i].view()});
      launch(kernels::lerp_all, stream, {.tensors = lerps, .weight = 0.25});
      Tensors result = x;
      result.insert(result.end(), average.begin(), average.end());
      return std::pair{std::vector<Tensor>{norm, clip}, result};
    };
    const auto [actual, actual_tensors] = run(kDevice);
    const auto [expected, expected_tensors] = run(kCpu);
    EXPECT_LE(max_error(actual[0], expected[0]), 1e-6);
    EXPECT_LE(max_error(actual[1], expected[1]), 1e-6);
    for (std::size_t i = 0; i < expected_tensors.size(); ++i)
      EXPECT_LE(max_error(actual_tensors[i], expected_tensors[i]), dtype == DType::f32 ? 1e-6 : 1e-4) << i;
  }
}

TEST(CudaRandom, DropsTheVeryElementsThatTheCpuDrops) {
  const Tensor x = randn({1003}, 3);
  const auto run = [&](const Tensor& from) {
    const Tensor y = Tensor::empty_like(from);
    launch(kernels::dropout, current_stream(from.device()),
           {.x = from.view(), .y = y.view(), .p = 0.3, .key = {42, 7}});
    return to(y, kCpu).to_vector<float>();
  };
  EXPECT_EQ(run(to(x, kDevice)), run(x));
}

TEST(CudaRandom, DropsHalfTypesAndAddsToWhatIsThere) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t skip : {0, 1}) {
      for (const bool accumulate : {false, true}) {
        const Tensor x = to(randn({1003 + skip}, 3), dtype), start = to(randn({1003}, 4), dtype);
        const auto run = [&](Device device) {
          const Tensor from = slice(device.is_cpu() ? x : to(x, device), 0, skip);
          const Tensor y = device.is_cpu() ? clone(start) : to(start, device);
          launch(kernels::dropout, current_stream(device),
                 {.x = from.view(), .y = y.view(), .p = 0.3, .key = {42, 7}, .accumulate = accumulate});
          return y;
        };
        EXPECT_LE(max_error(run(kDevice), run(kCpu)), dtype == DType::f32 ? 1e-6 : 1e-2)
            << skip << accumulate;
      }
    }
  }
}

TEST(CudaRandom, DrawsTheNumbersOfTheCpu) {
  for (const auto distribution : {kernels::Distribution::uniform, kernels::Distribution::normal}) {
    const auto run = [&](Device device) {
      const Tensor y = Tensor::empty({1003}, DType::f32, device);
      launch(kernels::random, current_stream(device),
             {.y = y.view(), .distribution = distribution, .a = -1, .b = 2, .key = {9, 5}});
      return y;
    };
    EXPECT_LE(max_error(run(kDevice), run(kCpu)), 1e-6);
  }
}

TEST(CudaCopy, ConvertsBetweenDtypesAsTheCpuDoes) {
  const std::vector<DType> dtypes = {DType::f32, DType::f16, DType::bf16, DType::i64,    DType::i32,
                                     DType::i16, DType::i8,  DType::u8,   DType::boolean};
  std::vector<float> values;
  for (int i = 0; i < 77; ++i) values.push_back(static_cast<float>(i % 40) * 1.25F);
  const Tensor base = Tensor::from(values, {7, 11});
  for (const DType from : dtypes) {
    for (const DType into : dtypes) {
      const Tensor x = to(base, from);
      EXPECT_EQ(max_error(to(to(to(x, kDevice), into), kCpu), to(x, into)), 0.0)
          << name(from) << " to " << name(into);
    }
  }
}

TEST(CudaCheck, CountsNansAndInfinities) {
  std::vector<float> values(70000, 1.0F);
  values[3] = NAN;
  values[69999] = INFINITY;
  values[40000] = -INFINITY;
  const Tensor x = Tensor::from(values, {70000}, kDevice), count = Tensor::empty({1}, DType::i64, kDevice);
  launch(kernels::count_nonfinite, current_stream(kDevice), {.x = x.view(), .count = count.view()});
  EXPECT_EQ(count.item(), 3.0);
}

TEST(CudaLoss, MakesTheCountNanForATargetOutsideOfTheClasses) {
  for (const std::int64_t stray : {-1, 10, -100, 5}) {
    const Tensor targets = Tensor::from(std::vector<std::int64_t>{1, stray, 3}, {3}, kDevice);
    const Tensor count = Tensor::empty({1}, DType::f32, kDevice);
    launch(kernels::count_targets, current_stream(kDevice),
           {.targets = targets.view(), .count = count.view(), .classes = 10});
    const double found = count.item();
    if (stray == -100) EXPECT_EQ(found, 2.0);
    if (stray == 5) EXPECT_EQ(found, 3.0);
    if (stray == -1 || stray == 10) EXPECT_TRUE(std::isnan(found));
  }
}

TEST(CudaCheck, CountsInViewsOfAnyStrides) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor x = to(randn({40, 83}, 1), dtype);
    launch(kernels::fill, current_stream(kCpu),
           {.y = slice(slice(x, 0, 3, 5), 1, 80).view(), .value = INFINITY});
    const Tensor there = to(x, kDevice), count = Tensor::empty({1}, DType::i64, kDevice);
    const auto found = [&](const Tensor& view) {
      launch(kernels::count_nonfinite, current_stream(kDevice), {.x = view.view(), .count = count.view()});
      return count.item();
    };
    EXPECT_EQ(found(there), 6.0);
    EXPECT_EQ(found(slice(there, 1, 0, 81)), 2.0);
    EXPECT_EQ(found(slice(there, 0, 4)), 3.0) << "not aligned";
    EXPECT_EQ(found(transpose(there, 0, 1)), 6.0);
    View repeated = slice(slice(there, 0, 3, 4), 1, 82).view();
    repeated.shape[1] = 48;
    repeated.strides[1] = 0;
    launch(kernels::count_nonfinite, current_stream(kDevice), {.x = repeated, .count = count.view()});
    EXPECT_EQ(count.item(), 48.0) << "one element for all";
  }
}

// A frequent id: more of its rows than are read at a time, in several lists; columns of several blocks, of no
// whole pack, not aligned.
TEST(CudaEmbedding, AFrequentIdHasTheSumOfItsRows) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const auto& [width, skip] : {std::pair{24, 0}, {1032, 0}, {261, 0}, {24, 1}}) {
      if (width == 1032 && dtype != DType::f32) continue;  // one block's
      std::vector<std::int64_t> list;
      for (std::int64_t i = 0; i < 300; ++i) list.push_back(i % 3 == 0 ? i % 7 : 9);
      const Tensor ids = Tensor::from(list, {300});
      const Tensor rows = to(randn({300 * width + skip}, 1), dtype), start = to(randn({11, width}, 2), dtype);
      for (const bool accumulate : {false, true}) {
        const auto run = [&](Device device) {
          const Tensor dy = reshape(slice(to(rows, device), 0, skip), {300, width});
          const Tensor dweight = device.is_cpu() ? clone(start) : to(start, device);
          const Tensor there = device.is_cpu() ? ids : to(ids, device);
          launch(kernels::embedding_backward, current_stream(device),
                 {.dy = dy.view(), .ids = there.view(), .dweight = dweight.view(), .accumulate = accumulate});
          return dweight;
        };
        EXPECT_LE(max_error(run(kDevice), run(kCpu)), dtype == DType::f32 ? 1e-4 : 1e-2)
            << width << " " << skip << " " << accumulate;
      }
    }
  }
}

// The host does not wait to check them.
TEST(CudaEmbedding, AnIdOutsideOfTheRowsGivesNaNAndNoGradient) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t width : {1, 2, 3, 8, 12}) {  // words of 2, 4 and 16 bytes
      Tensor weight = to(randn({5, width}, 1, dtype), kDevice);
      weight.set_requires_grad(true);
      const auto run = [&](const std::vector<std::int64_t>& ids) {
        weight.set_grad({});
        const Tensor y =
            embedding(weight, Tensor::from(ids, {static_cast<std::int64_t>(ids.size())}, kDevice));
        BackwardOptions options;
        options.grad = Tensor::empty_like(y);
        launch(kernels::fill, current_stream(kDevice), {.y = options.grad.view(), .value = 1});
        backward(y, options);
        return std::pair(to(to(y.detach(), kCpu), DType::f32), to(to(weight.grad(), kCpu), DType::f32));
      };
      const auto [found, gradient] = run({4, 5, -1, 0, 4});
      const auto [known, expected] = run({4, 0, 4});
      for (std::int64_t c = 0; c < width; ++c) {
        const auto at = [&](const Tensor& x, std::int64_t row) { return x.data<float>()[row * width + c]; };
        EXPECT_TRUE(std::isnan(at(found, 1)) && std::isnan(at(found, 2)));
        EXPECT_EQ(at(found, 0), at(known, 0));
        EXPECT_EQ(at(found, 3), at(known, 1));
        EXPECT_EQ(at(found, 4), at(known, 2));
      }
      EXPECT_EQ(max_error(gradient, expected), 0.0);
    }
  }
}

}  // namespace
}  // namespace ingot
