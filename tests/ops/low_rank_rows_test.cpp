#include <algorithm>
#include <random>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/kernels/kernel.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/low_rank.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::checked_device;
using testing::max_error;
using testing::randn;

Tensor on_device(const Tensor& x) { return to(x, checked_device()); }

// An emulated GPU takes its time.
std::uint64_t batches() { return checked_device().is_cpu() ? 20 : 4; }

// B as inference keeps it: its columns are adjacent.
Tensor by_columns(const Tensor& b) { return transpose(contiguous(transpose(b, 0, 1)), 0, 1); }

Tensor adapter_matrix(const Shape& shape, std::uint64_t seed, DType dtype) {
  const Tensor x = randn(shape, seed);
  return on_device(to(dtype == DType::i8 ? x * 20.0 : x, dtype));
}

// Layers with one input, and adapters of runs of its rows.
struct Batch {
  Tensor x;
  std::vector<Tensor> ys;
  std::vector<RowUpdate> updates;
};

Batch random_batch(std::uint64_t seed, DType adapters) {
  std::mt19937_64 random(seed);
  const float size = adapters == DType::i8 ? 1e-3F : 0.25F;  // codes are large
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  const std::int64_t in = 1 + below(90), rows = 1 + below(40), layers = 1 + below(3);
  Batch batch{.x = on_device(randn({rows, in}, seed)), .ys = {}, .updates = {}};
  for (std::int64_t layer = 0; layer < layers; ++layer)
    batch.ys.push_back(
        on_device(randn({rows, 1 + below(300)}, seed + 1 + static_cast<std::uint64_t>(layer))));
  for (std::int64_t begin = below(3); begin < rows;) {  // rows before, between and behind have none
    const std::int64_t count = std::min(1 + below(12), rows - begin);
    const std::int64_t rank = 1 + below(20);
    for (std::size_t of = 0; of < batch.ys.size(); ++of) {
      if (below(5) == 0) continue;  // an adapter of some of the layers
      const Tensor a = adapter_matrix({rank, in}, random(), adapters),
                   b = adapter_matrix({batch.ys[of].dim(1), rank}, random(), adapters);
      batch.updates.push_back({.of = of,
                               .begin = begin,
                               .count = count,
                               .a = a,
                               .b = below(2) == 0 ? b : by_columns(b),
                               .scale = size * static_cast<float>(1 + below(8))});
    }
    begin += count + below(3);
  }
  return batch;
}

std::vector<Tensor> copies(const std::vector<Tensor>& xs) {
  std::vector<Tensor> copied;
  for (const Tensor& x : xs) copied.push_back(clone(x));
  return copied;
}

// In f64 on the CPU, row by row of the definition.
std::vector<Tensor> expected_of(const Batch& batch) {
  std::vector<Tensor> ys;
  for (const Tensor& y : batch.ys) ys.push_back(to(to(y, kCpu), DType::f64));
  const Tensor x = to(to(batch.x, kCpu), DType::f64);
  for (const RowUpdate& update : batch.updates) {
    const auto wide = [](const Tensor& m) { return contiguous(to(to(to(m, kCpu), DType::f32), DType::f64)); };
    const Tensor a = wide(update.a), b = wide(update.b);
    const std::int64_t rank = a.dim(0), in = a.dim(1), out = b.dim(0);
    for (std::int64_t i = update.begin; i < update.begin + update.count; ++i) {
      for (std::int64_t r = 0; r < rank; ++r) {
        double inner = 0;
        for (std::int64_t c = 0; c < in; ++c)
          inner += x.data<double>()[i * in + c] * a.data<double>()[r * in + c];
        for (std::int64_t o = 0; o < out; ++o)
          ys[update.of].data<double>()[i * out + o] +=
              static_cast<double>(update.scale) * inner * b.data<double>()[o * rank + r];
      }
    }
  }
  return ys;
}

TEST(LowRankRows, RandomBatchesOfAdaptersEqualTheDefinition) {
  const NoGrad no_grad;
  for (std::uint64_t seed = 1; seed <= batches(); ++seed) {
    for (const DType adapters : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
      const Batch batch = random_batch(seed, adapters);
      const std::vector<Tensor> expected = expected_of(batch);
      const std::vector<Tensor> actual = add_low_rank_rows(copies(batch.ys), batch.x, batch.updates);
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_LE(max_error(to(actual[i], kCpu), expected[i]), 1e-4)
            << "batch " << seed << ", layer " << i << ", " << name(adapters);
    }
  }
}

TEST(LowRankRows, ReferenceKernelsEqualTheDefinition) {
  if (!checked_device().is_cpu()) GTEST_SKIP() << "reference kernels are the CPU's";
  const NoGrad no_grad;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Batch batch = random_batch(seed, DType::f16);
    const kernels::ForceKind reference(kernels::ImplKind::reference);
    const std::vector<Tensor> actual = add_low_rank_rows(copies(batch.ys), batch.x, batch.updates);
    const std::vector<Tensor> expected = expected_of(batch);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_LE(max_error(actual[i], expected[i]), 1e-4);
  }
}

TEST(LowRankRows, ARowHasTheBitsThatItHasAlone) {
  const NoGrad no_grad;
  for (std::uint64_t seed = 50; seed < 50 + batches(); ++seed) {
    const Batch batch = random_batch(seed, seed % 3 == 0   ? DType::f16
                                           : seed % 3 == 1 ? DType::i8
                                                           : DType::f32);
    const std::vector<Tensor> together = add_low_rank_rows(copies(batch.ys), batch.x, batch.updates);
    for (const RowUpdate& update : batch.updates) {
      for (std::int64_t row = update.begin; row < update.begin + update.count; ++row) {
        RowUpdate one = update;
        one.of = 0, one.begin = 0, one.count = 1;
        const auto some = [&](const Tensor& x) { return clone(narrow(x, 0, row, 1)); };
        std::vector<Tensor> y;
        y.push_back(some(batch.ys[update.of]));
        const Tensor alone = add_low_rank_rows(std::move(y), some(batch.x), {&one, 1}).front();
        EXPECT_EQ(to(alone, kCpu).to_vector<float>(), to(some(together[update.of]), kCpu).to_vector<float>())
            << "batch " << seed << ", row " << row;
      }
    }
  }
}

TEST(LowRankRows, UpdatesOfOneRowAddUpInTheirOrder) {
  const NoGrad no_grad;
  const Tensor x = on_device(Tensor::from<float>({2, 3}, {1, 2}));
  const auto matrix = [](std::vector<float> values, const Shape& shape) {
    return on_device(Tensor::from(values, shape));
  };
  const std::vector<RowUpdate> updates{
      {.begin = 0, .count = 1, .a = matrix({1, 0}, {1, 2}), .b = matrix({1, 10}, {2, 1}), .scale = 1},
      {.begin = 0, .count = 1, .a = matrix({0, 1}, {1, 2}), .b = matrix({100, 0}, {2, 1}), .scale = 2}};
  std::vector<Tensor> y;
  y.push_back(matrix({0.5F, 0.25F}, {1, 2}));
  EXPECT_EQ(to(add_low_rank_rows(std::move(y), x, updates).front(), kCpu).to_vector<float>(),
            (std::vector<float>{602.5F, 20.25F}));
}

TEST(LowRankRows, RefusesWhatDoesNotFit) {
  const NoGrad no_grad;
  const Tensor x = on_device(randn({4, 6}, 1)), y = on_device(randn({4, 5}, 2));
  const RowUpdate fits{
      .begin = 1, .count = 3, .a = on_device(randn({2, 6}, 3)), .b = on_device(randn({5, 2}, 4))};
  const auto add = [&](const RowUpdate& update) { return add_low_rank_rows({y}, x, {&update, 1}); };
  EXPECT_NO_THROW(add(fits));
  RowUpdate update = fits;
  update.begin = 2;
  EXPECT_THROW(add(update), DimensionMismatch);
  update = fits, update.of = 1;
  EXPECT_THROW(add(update), DimensionMismatch);
  update = fits, update.a = on_device(randn({3, 6}, 3));
  EXPECT_THROW(add(update), ShapeMismatch);
  update = fits, update.b = on_device(to(randn({5, 2}, 4), DType::f16));
  EXPECT_THROW(add(update), Error);
  const GradMode grad(true);
  EXPECT_THROW(add(fits), Error);
}

}  // namespace
}  // namespace ingot
