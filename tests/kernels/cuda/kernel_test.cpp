#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/check.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/loss.h"
#include "ingot/kernels/optimizer.h"
#include "ingot/kernels/rope.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/rope.h"
#include "ingot/ops/view.h"

// Kernels that no op case reaches, against the CPU's on the same data: optimizer steps, random numbers,
// checks; and sizes, positions and positions that none has.
namespace ingot {
namespace {

using testing::filled;
using testing::max_error;
using testing::randn;

using test::kDevice;

// Empty, one element, around a vector, around a chunk.
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

// Master weights of half parameters that nothing has changed yet, and the f32 weights that both stand for.
Tensor fresh_master(const Tensor& param) {
  if (param.dtype() == DType::bf16) return Tensor::zeros(param.shape(), DType::i16);
  return to(param, DType::f32);
}
Tensor master_of(const Tensor& param, const Tensor& master) {
  const Tensor p = to(param, kCpu), m = to(master, kCpu), joined = Tensor::empty(p.shape());
  if (m.dtype() == DType::f32) return m;
  for (std::int64_t i = 0; i < p.numel(); ++i)
    joined.data<float>()[i] = kernels::join_weight({p.data<bf16>()[i], m.data<std::int16_t>()[i]});
  return joined;
}
Tensors fresh_masters(const Tensors& params) {
  Tensors result;
  for (const Tensor& t : params)
    if (t.dtype() != DType::f32) result.push_back(fresh_master(t));
  return result;
}
Tensors masters_of(const Tensors& params, const Tensors& masters) {
  Tensors result;
  for (std::size_t i = 0; i < masters.size(); ++i) result.push_back(master_of(params[i], masters[i]));
  return result;
}

// Operands of steps, in the order in which they came.
struct Operands {
  Device device;
  Tensors tensors = {};
  std::vector<std::pair<std::size_t, std::size_t>> masters = {};  // parameter, remainder

  View add(const Tensor& t) {
    tensors.push_back(t);
    return t.view();
  }
  /// `n` random elements, `skip` elements into their memory.
  View random(std::uint64_t seed, std::int64_t n, DType dtype, std::int64_t skip = 0) {
    const Tensor whole = to(randn({n + skip}, seed) * (dtype == DType::i16 ? 5000.0 : 1.0), dtype);
    return add(slice(device.is_cpu() ? clone(whole) : to(whole, device), 0, skip));
  }
  /// A random remainder for the parameter that was added at position `param`.
  View remainder(std::size_t param, std::uint64_t seed, std::int64_t skip = 0) {
    masters.emplace_back(param, tensors.size());
    return random(seed, tensors[param].numel(), DType::i16, skip);
  }
  /// With the f32 weights in place of the remainders: two results that are near have remainders that are not.
  Tensors results() const {
    Tensors all = tensors;
    for (const auto& [param, master] : masters) all[master] = master_of(all[param], all[master]);
    return all;
  }
};

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
      const Tensors params = random_tensors(1, dtype);
      const AdamW start{params, random_tensors(100, dtype), random_tensors(200), magnitudes(300),
                        fresh_masters(params)};
      const AdamW expected = start.on(kCpu), actual = start.on(kDevice);
      for (int step = 0; step < 2; ++step) {
        expected.step(kCpu, decoupled);
        actual.step(kDevice, decoupled);
      }
      expect_equal(actual.m, expected.m, 1e-6, "m");
      expect_equal(actual.v, expected.v, 1e-6, "v");
      expect_equal(masters_of(actual.p, actual.master), masters_of(expected.p, expected.master), 2e-6,
                   "master");
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
    Operands all{device};
    std::vector<kernels::AdamWTensor> list;
    for (const Kind& kind : kinds) {
      const std::size_t position = all.tensors.size();
      const View param = all.random(1, n, kind.param, kind.skip),
                 grad = all.random(2, n, kind.grad, kind.skip);
      const View m = all.random(3, n, DType::f32, kind.skip);
      const View squares = all.add(mul(all.tensors.back(), all.tensors.back()));
      list.push_back({.param = param,
                      .grad = grad,
                      .m = m,
                      .v = squares,
                      .master = kind.master ? all.remainder(position, 4, kind.skip) : View{},
                      .lr = 0.01,
                      .weight_decay = 0.1,
                      .bias_correction1 = 0.271,
                      .bias_correction2 = 0.002997});
    }
    launch(kernels::adamw, current_stream(device),
           {.tensors = list, .beta1 = 0.8, .beta2 = 0.99, .eps = 0.1});
    return all.results();
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

/// `n` random elements on `device`, `skip` elements into their memory.
Tensor random_at(std::int64_t skip, std::int64_t n, std::uint64_t seed, DType dtype, Device device) {
  const Tensor whole = randn({n + skip}, seed, dtype);
  return slice(device.is_cpu() ? whole : to(whole, device), 0, skip);
}
void expect_near(const Tensors& actual, const Tensors& expected, const std::string& what) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(max_error(actual[i], expected[i]), expected[i].dtype() == DType::f32 ? 2e-6 : 0x1p-6)
        << what << ", tensor " << i;
}

// With and without momentum and master weights.
TEST(CudaOptimizer, SgdTakesTensorsOfSeveralKinds) {
  struct Kind {
    DType param, grad;
    bool momentum, master, first;
  };
  const Kind kinds[] = {{DType::f32, DType::f32, false, false, false},
                        {DType::bf16, DType::bf16, true, true, false},
                        {DType::bf16, DType::bf16, false, true, false},
                        {DType::f32, DType::bf16, true, false, true},
                        {DType::f16, DType::f32, true, false, false}};
  const auto step = [&](Device device) {
    const std::int64_t n = 5003;
    Operands all{device};
    std::vector<kernels::SgdTensor> list;
    for (const Kind& kind : kinds) {
      const std::size_t position = all.tensors.size();
      list.push_back({.param = all.random(1, n, kind.param),
                      .grad = all.random(2, n, kind.grad),
                      .momentum = kind.momentum ? all.random(3, n, DType::f32) : View{},
                      .master = kind.master ? all.remainder(position, 4) : View{},
                      .lr = 0.1,
                      .weight_decay = 0.01,
                      .first = kind.first});
    }
    const Tensor scale = Tensor::scalar(0.5F, device);
    launch(kernels::sgd, current_stream(device),
           {.tensors = list, .momentum = 0.9, .dampening = 0.1, .grad_scale = scale.view()});
    return all.results();
  };
  expect_near(step(kDevice), step(kCpu), "sgd");
}

// The others are aligned: no kernel may take the one for it.
TEST(CudaOptimizer, EachOperandMayBeMisaligned) {
  const std::int64_t n = 1003;
  for (int odd = 0; odd < 5; ++odd) {
    const auto run = [&](Device device) {
      const Stream stream = current_stream(device);
      Operands all{device};
      const auto there = [&](int operand, DType dtype = DType::f32) {
        return all.random(static_cast<std::uint64_t>(operand), n, dtype, operand == odd ? 1 : 0);
      };
      const std::vector<kernels::AdamWTensor> adamw = {{.param = there(0, DType::bf16),
                                                        .grad = there(1, DType::bf16),
                                                        .m = there(2),
                                                        .v = there(3),
                                                        .master = all.remainder(0, 4, odd == 4 ? 1 : 0),
                                                        .lr = 0.01}};
      launch(kernels::fill, stream, {.y = adamw[0].v, .value = 0.5});
      launch(kernels::adamw, stream, {.tensors = adamw});
      const std::vector<kernels::SgdTensor> sgd = {{.param = there(0, DType::bf16),
                                                    .grad = there(1, DType::bf16),
                                                    .momentum = there(2),
                                                    .master = all.remainder(5, 3, odd == 3 ? 1 : 0),
                                                    .lr = 0.01}};
      launch(kernels::sgd, stream, {.tensors = sgd, .momentum = 0.9});
      const std::vector<kernels::LerpTensor> lerp = {{.from = there(0, DType::bf16), .to = there(1)}};
      launch(kernels::lerp_all, stream, {.tensors = lerp, .weight = 0.25});
      const std::vector<View> list = {there(0), there(1, DType::bf16)};
      launch(kernels::scale_all, stream, {.tensors = list, .limit = 0.5});
      const Tensor partials = Tensor::empty({2}, DType::f64, device);
      const View norm = all.add(Tensor::empty({1}, DType::f32, device));
      launch(kernels::global_norm, stream, {.tensors = list, .partials = partials.view(), .norm = norm});
      return all.results();
    };
    expect_near(run(kDevice), run(kCpu), "operand " + std::to_string(odd));
  }
}

// Some of them empty; of the norm there are more partial sums than threads that add them, too.
TEST(CudaOptimizer, TakesMoreTensorsThanALaunch) {
  const std::int64_t count = 1000, most = 8;
  const auto run = [&](Device device) {
    const Stream stream = current_stream(device);
    Tensors all;
    for (std::uint64_t seed = 0; seed < 3; ++seed)
      all.push_back(random_at(0, count * most, seed, DType::f32, device));
    all.push_back(Tensor::zeros({count * most}, DType::f32, device));
    std::vector<kernels::AdamWTensor> list;
    std::vector<View> params;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto part = [&](std::size_t which) { return narrow(all[which], 0, i * most, i % most).view(); };
      list.push_back({.param = part(0), .grad = part(1), .m = part(2), .v = part(3), .lr = 0.01});
      params.push_back(part(0));
    }
    launch(kernels::adamw, stream, {.tensors = list, .eps = 0.1});
    const Tensor partials = Tensor::empty({kernels::norm_partials(params)}, DType::f64, device);
    all.push_back(Tensor::empty({1}, DType::f32, device));
    launch(kernels::global_norm, stream,
           {.tensors = params, .partials = partials.view(), .norm = all.back().view()});
    return all;
  };
  expect_near(run(kDevice), run(kCpu), "many");
}

TEST(CudaOptimizer, ClipsOnlyWhatIsAboveTheNorm) {
  for (const float value : {0.0F, 1e-6F, 1.0F, 3.0F, INFINITY, NAN}) {
    for (const double max_norm : {1e-6, 2.0}) {
      const auto run = [&](Device device) {
        const Tensor x = Tensor::scalar(value, device), partials = Tensor::empty({1}, DType::f64, device);
        const Tensor norm = Tensor::empty({1}, DType::f32, device), clip = Tensor::empty_like(norm);
        const std::vector<View> list = {x.view()};
        launch(kernels::global_norm, current_stream(device),
               {.tensors = list,
                .partials = partials.view(),
                .norm = norm.view(),
                .clip = clip.view(),
                .max_norm = max_norm});
        return std::pair{static_cast<float>(norm.item()), static_cast<float>(clip.item())};
      };
      const auto [norm, clip] = run(kDevice);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(norm) && std::isnan(clip)) << max_norm;
        continue;
      }
      const auto [expected_norm, expected_clip] = run(kCpu);
      EXPECT_FLOAT_EQ(norm, expected_norm) << value << " " << max_norm;
      EXPECT_FLOAT_EQ(clip, expected_clip) << value << " " << max_norm;
    }
  }
}

TEST(CudaOptimizer, ScalesWithoutALimitAndLimitsWithoutAFactor) {
  const auto run = [](Device device, float factor, double limit) {
    const Tensor x = random_at(0, 1003, 1, DType::f32, device), by = Tensor::scalar(factor, device);
    const std::vector<View> list = {x.view()};
    launch(kernels::scale_all, current_stream(device),
           {.tensors = list, .factor = factor == 1.0F ? View{} : by.view(), .limit = limit});
    return x;
  };
  for (const float factor : {1.0F, 0.5F})
    for (const double limit : {0.0, 0.25})
      EXPECT_EQ(max_error(run(kDevice, factor, limit), run(kCpu, factor, limit)), 0.0) << factor << limit;
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

// More than the grid has threads.
TEST(CudaCopy, ConvertsManyElements) {
  const Tensor x = to(mul(randn({40000}, 1), Tensor::scalar(100.0F)), DType::i32);
  EXPECT_EQ(max_error(to(to(x, kDevice), DType::i64), to(x, DType::i64)), 0.0);
}

TEST(CudaCopy, ChoosesBetweenManyElements) {
  const Tensor a = randn({80000}, 1), b = randn({80000}, 2),
               condition = to(to(a, DType::i32), DType::boolean);
  EXPECT_EQ(max_error(where(to(condition, kDevice), to(a, kDevice), to(b, kDevice)), where(condition, a, b)),
            0.0);
}

TEST(CudaCheck, CountsNansAndInfinities) {
  const std::int64_t n = 300000;  // more than the grid reads at a time
  std::vector<float> values(static_cast<std::size_t>(n), 1.0F);
  values[3] = NAN;
  values.back() = INFINITY;
  values[290000] = -INFINITY;
  const Tensor x = Tensor::from(values, {n}, kDevice), count = Tensor::empty({1}, DType::i64, kDevice);
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

// In whole vectors and one by one.
TEST(CudaRope, APositionOutsideOfTheTableGivesNaN) {
  for (const std::int64_t size : {32, 6}) {
    const RopeTable table = rope_table(rope_frequencies(size, 10000.0), 4);
    const Tensor cos = to(table.cos, kDevice), sin = to(table.sin, kDevice);
    const Tensor x = to(randn({1, 3, 4, size}, 1), kDevice), y = Tensor::empty_like(x);
    launch(kernels::rope, current_stream(kDevice),
           {.x = x.view(),
            .y = y.view(),
            .angles = {.cos = cos.view(), .sin = sin.view(), .offset = 2, .rotated_heads = 4}});
    const std::vector<float> found = to(y, kCpu).to_vector<float>();
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(std::isnan(found[i]), i >= found.size() / 3 * 2) << size << " " << i;
  }
}

TEST(CudaRope, WritesToViewsOfAnyStrides) {
  const RopeTable table = rope_table(rope_frequencies(32, 10000.0), 20);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto& [width, skip] : {std::pair{40, 0}, {40, 2}, {34, 0}, {33, 1}}) {
      const auto run = [&](Device device) {
        const Tensor x = to(randn({2, 5, 3, 32}, 1, dtype), device);
        const Tensor y = to(filled({2, 5, 3, width}, 1.0F), dtype), there = to(y, device);
        const Tensor cos = to(table.cos, device), sin = to(table.sin, device);
        launch(kernels::rope, current_stream(device),
               {.x = x.view(),
                .y = narrow(there, 3, skip, 32).view(),
                .angles = {.cos = cos.view(), .sin = sin.view(), .rotated_heads = 3}});
        return there;
      };
      EXPECT_LE(max_error(run(kDevice), run(kCpu)), dtype == DType::f32 ? 1e-6 : 0x1p-7)
          << width << " " << skip;
    }
  }
}

}  // namespace
}  // namespace ingot
