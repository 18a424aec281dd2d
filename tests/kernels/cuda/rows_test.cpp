#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/loss.h"
#include "ingot/kernels/norm.h"
#include "ingot/kernels/softmax.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

// Kernels that work on rows have a config for every width: several rows in a warp, a warp, blocks of several
// sizes, rows that registers do not hold, rows that cannot be read in vectors.
namespace ingot {
namespace {

using test::kDevice;
using testing::check_op;
using testing::max_error;
using testing::randn;

constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f16};

/// Shapes that reach every config in every dtype, with more rows than thread groups in a block where several
/// share one.
const std::vector<Shape> kShapes = {{19, 8},   {19, 64},  {5, 256},  {5, 264},  {3, 1024},  {3, 1030},
                                    {2, 1032}, {2, 4096}, {2, 5000}, {2, 8200}, {1, 16400}, {2, 257}};

std::vector<unsigned char> bytes(const Tensor& x) {
  const Tensor host = contiguous(to(x, Device{}));
  const auto* data = static_cast<const unsigned char*>(host.view().data);
  return {data, data + static_cast<std::size_t>(host.numel()) * byte_size(host.dtype())};
}

TEST(CudaRows, NormsHoldForEveryForm) {
  for (const Shape& shape : kShapes) {
    const Shape width{shape.back()};
    check_op({.name = "rms " + to_string(shape),
              .op = [](std::span<const Tensor> in) { return rms_norm(in[0], in[1], 1e-5F, 1.0F); },
              .inputs = {{shape}, {width}}});
    check_op({.name = "layer " + to_string(shape),
              .op = [](std::span<const Tensor> in) { return layer_norm(in[0], in[1], in[2]); },
              .inputs = {{shape}, {width}, {width}}});
  }
}

TEST(CudaRows, NormsOfSumsHoldForEveryForm) {
  const auto whole = [](const NormedSum& result) { return result.sum + result.normed; };
  for (const Shape& shape : kShapes) {
    const Shape width{shape.back()};
    check_op({.name = "rms " + to_string(shape),
              .op = [&](std::span<const Tensor> in) { return whole(add_rms_norm(in[0], in[1], in[2])); },
              .inputs = {{shape}, {shape}, {width}},
              .half_tolerance = 6e-2});
    check_op(
        {.name = "layer " + to_string(shape),
         .op = [&](std::span<const Tensor> in) { return whole(add_layer_norm(in[0], in[1], in[2], {})); },
         .inputs = {{shape}, {shape}, {width}},
         .half_tolerance = 6e-2});
  }
}

TEST(CudaRows, NormsHoldForMoreRowsThanTheGridHasThreadGroups) {
  for (const Shape& shape : {Shape{2060, 16}, Shape{530, 320}, Shape{135, 1032}, Shape{530, 33}}) {
    const Shape width{shape.back()};
    check_op({.name = to_string(shape),
              .op = [](std::span<const Tensor> in) { return layer_norm(in[0], in[1], in[2]); },
              .inputs = {{shape}, {width}, {width}},
              .f32_tolerance = 1e-4,
              .half_tolerance = 0.2});  // sums of hundreds of rounded gradients
  }
}

TEST(CudaRows, SoftmaxAndLossHoldForMoreRowsThanTheGridHasThreadGroups) {
  const Shape shape{2060, 16};
  const Tensor goal = Tensor::from(std::vector<std::int64_t>(2060, 7), {2060});
  using Op = std::function<Tensor(const Tensor&)>;
  const std::vector<Op> ops = {[](const Tensor& x) { return softmax(x); },
                               [](const Tensor& x) { return log_softmax(x); },
                               [](const Tensor& x) { return logsumexp(x); },
                               [&](const Tensor& x) { return cross_entropy(x, to(goal, x.device())); }};
  for (const Op& op : ops) {
    const auto run = [&](Device device) {
      Tensor x = to(randn(shape, 1), device);
      x.set_requires_grad(true);
      const Tensor y = op(x);
      backward(y, {.grad = to(randn(y.shape(), 2), device)});
      return std::pair(y.detach(), x.grad());
    };
    const auto [found, gradient] = run(kDevice);
    const auto [expected, expected_gradient] = run(kCpu);
    EXPECT_LE(max_error(found, expected), 1e-5);
    EXPECT_LE(max_error(gradient, expected_gradient), 1e-5);
  }
}

// By one element, and by 8 bytes in either size of element.
TEST(CudaRows, MisalignedRowsHold) {
  for (const auto& [d, skip] : std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
           {64, 1}, {64, 2}, {64, 4}, {1032, 1}, {4096, 1}}) {
    const auto rows = [=](const Tensor& x) { return reshape(narrow(x, 0, skip, 3 * d), {3, d}); };
    const Shape flat{3 * d + skip}, width{d};
    const std::string what = std::to_string(d) + " after " + std::to_string(skip);
    check_op({.name = "norm " + what,
              .op = [=](std::span<const Tensor> in) { return rms_norm(rows(in[0]), in[1]); },
              .inputs = {{flat}, {width}}});
    check_op(
        {.name = "weight " + what,
         .op = [=](std::span<const Tensor> in) { return layer_norm(in[0], narrow(in[1], 0, skip, d), {}); },
         .inputs = {{Shape{3, d}}, {Shape{d + skip}}}});
    check_op({.name = "softmax " + what,
              .op = [=](std::span<const Tensor> in) { return softmax(rows(in[0])); },
              .inputs = {{flat}}});
  }
}

TEST(CudaRows, SoftmaxAndLogSumExpHoldForEveryForm) {
  for (const Shape& shape : kShapes) {
    check_op({.name = "softmax " + to_string(shape),
              .op = [](std::span<const Tensor> in) { return softmax(in[0]); },
              .inputs = {{shape}}});
    check_op({.name = "log_softmax " + to_string(shape),
              .op = [](std::span<const Tensor> in) { return log_softmax(in[0]); },
              .inputs = {{shape}}});
    check_op({.name = "logsumexp " + to_string(shape),
              .op = [](std::span<const Tensor> in) { return logsumexp(in[0]); },
              .inputs = {{shape}}});
  }
}

TEST(CudaRows, CrossEntropyHoldsForEveryForm) {
  const std::vector<CrossEntropyLoss> variants = {
      {.z_loss = 0.05F}, {.label_smoothing = 0.2F, .z_loss = 0.02F, .softcap = 3.0F}};
  for (const Shape& shape : kShapes) {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < shape[0]; ++i)
      values.push_back(i == 1 ? -100 : (i * 977 + shape[1] - 1) % shape[1]);
    const Tensor goal = Tensor::from(values, {shape[0]});
    for (const CrossEntropyLoss& loss : variants) {
      check_op({.name = to_string(shape) + " softcap " + std::to_string(loss.softcap),
                .op =
                    [&](std::span<const Tensor> in) {
                      return cross_entropy(in[0], testing::beside(goal, in), loss);
                    },
                .inputs = {{shape}}});
    }
  }
}

struct Gradients {
  Tensor loss, dlogits;
};

Gradients cross_entropy_of(const View& logits, const Tensor& goal, const Tensor& dlogits, float softcap) {
  Gradients result{Tensor::empty({logits.dim(0)}, DType::f32, kDevice), dlogits};
  launch(kernels::cross_entropy, current_stream(kDevice),
         {.logits = logits,
          .targets = goal.view(),
          .loss = result.loss.view(),
          .dlogits = dlogits.view(),
          .options = {.softcap = softcap}});
  return result;
}

TEST(CudaRows, CrossEntropyWritesTheGradientOverTheLogits) {
  for (const std::int64_t n : {64, 1024, 1030, 4096, 16400}) {
    for (const DType dtype : kDTypes) {
      for (const float softcap : {0.0F, 2.0F}) {
        const Tensor logits = to(randn({5, n}, 7, dtype), kDevice);
        const Tensor goal =
            to(Tensor::from(std::vector<std::int64_t>{0, n - 1, -100, n / 2, 3}, {5}), kDevice);
        const Gradients apart = cross_entropy_of(logits.view(), goal, Tensor::empty_like(logits), softcap);
        const Gradients over = cross_entropy_of(logits.view(), goal, logits, softcap);
        EXPECT_EQ(bytes(over.loss), bytes(apart.loss)) << n << name(dtype) << softcap;
        EXPECT_EQ(bytes(over.dlogits), bytes(apart.dlogits)) << n << name(dtype) << softcap;
      }
    }
  }
}

// Rows that registers do not hold are copied to shared memory, each while the one before is written; those
// that do not fit there are read twice. More rows than blocks, also over the logits.
TEST(CudaRows, CrossEntropyOfLongRowsEqualsTheCpu) {
  struct Case {
    std::int64_t rows, n, width;
    DType dtype;
  };
  for (const Case& c : {Case{19, 8200, 8200, DType::f32}, Case{19, 16391, 16448, DType::bf16},
                        Case{11, 30001, 30016, DType::f32}, Case{3, 60004, 60004, DType::f32}}) {
    const Tensor wide = randn({c.rows, c.width}, 7, c.dtype), on_device = to(wide, kDevice);
    std::vector<std::int64_t> targets;
    for (std::int64_t row = 0; row < c.rows; ++row) targets.push_back(row == 2 ? -100 : c.n - 1 - 411 * row);
    const auto run = [&](const Tensor& logits, const Tensor& to) {
      const Tensor goal = Tensor::from(targets, {c.rows}, logits.device());
      const Tensor loss = Tensor::empty({c.rows}, DType::f32, logits.device());
      launch(kernels::cross_entropy, current_stream(logits.device()),
             {.logits = narrow(logits, 1, 0, c.n).view(),
              .targets = goal.view(),
              .loss = loss.view(),
              .dlogits = narrow(to, 1, 0, c.n).view()});
      return loss;
    };
    const Tensor expected = Tensor::zeros(wide.shape(), c.dtype);
    const Tensor loss = run(wide, expected), found = run(on_device, on_device);
    EXPECT_LE(max_error(found, loss), 2e-5) << c.n;
    EXPECT_LE(max_error(narrow(on_device, 1, 0, c.n), narrow(expected, 1, 0, c.n)),
              c.dtype == DType::f32 ? 2e-6 : 1e-2)
        << c.n;
  }
}

TEST(CudaRows, CrossEntropyTakesRowsWithSpaceBetween) {
  for (const std::int64_t space : {8, 4, 3, 2}) {  // in vectors, and not: 8 bytes too
    for (const DType dtype : kDTypes) {
      const std::int64_t n = 1032;
      const Tensor wide = to(randn({5, n + space}, 7, dtype), kDevice);
      const Tensor goal = to(Tensor::from(std::vector<std::int64_t>{0, n - 1, -100, 500, 3}, {5}), kDevice);
      const Tensor rows = narrow(wide, 1, 0, n), packed = contiguous(rows);
      const Gradients apart = cross_entropy_of(packed.view(), goal, Tensor::empty_like(packed), 0.0F);
      const Gradients spaced = cross_entropy_of(rows.view(), goal, Tensor::empty_like(packed), 0.0F);
      EXPECT_LE(max_error(spaced.loss, apart.loss), 1e-5) << space << name(dtype);
      EXPECT_LE(max_error(spaced.dlogits, apart.dlogits), 1e-3) << space << name(dtype);
    }
  }
}

// As the logits of a vocabulary lie whose size is not a multiple of a vector.
TEST(CudaRows, CrossEntropyTakesAlignedRowsThatEndInAPartOfAVector) {
  for (const auto& [n, width] : {std::pair<std::int64_t, std::int64_t>{1031, 1032}, {16391, 16448}}) {
    for (const DType dtype : kDTypes) {
      const Tensor wide = to(randn({4, width}, 7, dtype), kDevice);
      const Tensor goal = to(Tensor::from(std::vector<std::int64_t>{0, n - 1, -100, 500}, {4}), kDevice);
      const Tensor rows = narrow(wide, 1, 0, n), packed = contiguous(rows);
      for (const kernels::CrossEntropyOptions options :
           {kernels::CrossEntropyOptions{}, {.label_smoothing = 0.1F, .softcap = 2.0F}}) {
        const auto run = [&](const View& logits, const Tensor& to) {
          const Tensor loss = Tensor::empty({4}, DType::f32, kDevice), lse = Tensor::empty_like(loss);
          launch(kernels::cross_entropy, current_stream(kDevice),
                 {.logits = logits,
                  .targets = goal.view(),
                  .loss = loss.view(),
                  .lse = lse.view(),
                  .dlogits = to.view(),
                  .options = options});
          return std::pair(loss, lse);
        };
        const Tensor expected = Tensor::empty_like(packed), found = clone(wide), again = clone(wide);
        const auto [loss, lse] = run(packed.view(), expected);
        const auto spaced = run(rows.view(), narrow(found, 1, 0, n));
        EXPECT_LE(max_error(spaced.first, loss), 1e-5) << n << name(dtype);
        const double tolerance = dtype == DType::f32 ? 1e-6 : 1e-2;
        EXPECT_LE(max_error(narrow(found, 1, 0, n), expected), tolerance) << n << name(dtype);
        EXPECT_EQ(max_error(narrow(found, 1, n, width - n), narrow(wide, 1, n, width - n)), 0.0)
            << "what lies between rows was written";
        const Tensor one = Tensor::from(std::vector<float>{1}, {1}, kDevice);
        launch(kernels::cross_entropy_backward, current_stream(kDevice),
               {.logits = rows.view(),
                .targets = goal.view(),
                .lse = lse.view(),
                .dloss = one.view(),
                .dlogits = narrow(again, 1, 0, n).view(),
                .options = options});
        EXPECT_LE(max_error(narrow(again, 1, 0, n), expected), tolerance) << n << name(dtype);
        EXPECT_EQ(max_error(narrow(again, 1, n, width - n), narrow(wide, 1, n, width - n)), 0.0);
      }
    }
  }
}

TEST(CudaRows, SoftmaxAndNormsWorkInPosition) {
  for (const std::int64_t d : {64, 1024, 1030, 4096, 16400}) {
    for (const DType dtype : kDTypes) {
      const Stream stream = current_stream(kDevice);
      const Tensor x = to(randn({3, d}, 1, dtype), kDevice), residual = to(randn({3, d}, 2, dtype), kDevice);
      const Tensor weight = to(randn({d}, 3, dtype), kDevice);
      const Tensor rstd = Tensor::empty({3}, DType::f32, kDevice);
      const auto norm = [&](const Tensor& from, const Tensor& y, const Tensor& sum) {
        launch(kernels::rms_norm, stream,
               {.x = from.view(),
                .weight = weight.view(),
                .y = y.view(),
                .rstd = rstd.view(),
                .eps = 1e-5F,
                .residual = residual.view(),
                .sum = sum.view()});
      };
      const Tensor sum = Tensor::empty_like(x), y = Tensor::empty_like(x), in_place = clone(x);
      norm(x, y, sum);
      norm(in_place, y, in_place);
      EXPECT_EQ(bytes(in_place), bytes(sum)) << d << name(dtype);

      launch(kernels::softmax, stream, {.x = x.view(), .y = y.view()});
      const Tensor soft = clone(x);
      launch(kernels::softmax, stream, {.x = soft.view(), .y = soft.view()});
      EXPECT_EQ(bytes(soft), bytes(y)) << d << name(dtype);
    }
  }
}

TEST(CudaRows, InfinitiesAndNansAreWhatTheyAreForTheFormula) {
  const float inf = INFINITY;
  for (const std::int64_t n : {8, 1024, 1030, 9000}) {
    const auto length = static_cast<std::size_t>(n);
    std::vector<float> none(length, -inf), last(length, -inf), above(length, 1.0F), unknown(length, 1.0F);
    last[length - 1] = 2.0F;  // in the last batch of a long row
    above[length / 2] = inf;
    unknown[length / 2] = NAN;
    std::vector<float> all;
    for (const auto& row : {none, last, above, unknown}) all.insert(all.end(), row.begin(), row.end());
    const Tensor x = to(Tensor::from(all, {4, n}), kDevice);
    const std::vector<float> sums = to(logsumexp(x), Device{}).to_vector<float>();
    EXPECT_EQ(sums[0], -inf) << n;
    EXPECT_EQ(sums[1], 2.0F) << n;
    EXPECT_EQ(sums[2], inf) << n;
    EXPECT_TRUE(std::isnan(sums[3])) << n;
    const std::vector<float> soft = to(softmax(x), Device{}).to_vector<float>();
    for (std::size_t i = 0; i < length; ++i) {
      EXPECT_TRUE(std::isnan(soft[i])) << n;
      EXPECT_EQ(soft[length + i], i + 1 == length ? 1.0F : 0.0F) << n;
      EXPECT_TRUE(std::isnan(soft[2 * length + i])) << n;
      EXPECT_TRUE(std::isnan(soft[3 * length + i])) << n;
    }
  }
}

TEST(CudaColumnSum, EqualsTheCpuForEveryShape) {
  const auto sums = [](const Tensor& x, const Tensor& y, bool accumulate) {
    const Tensor partials = Tensor::empty({16, x.dim(1)}, DType::f32, x.device());
    launch(kernels::column_sum, current_stream(x.device()),
           {.x = x.view(), .y = y.view(), .partials = partials.view(), .accumulate = accumulate});
  };
  for (const Shape& shape : {Shape{0, 24}, Shape{1, 1}, Shape{5, 33}, Shape{700, 8}, Shape{700, 520},
                             Shape{90, 4096}, Shape{3, 2049}}) {
    for (const DType dtype : kDTypes) {
      for (const bool accumulate : {false, true}) {
        for (const std::int64_t skip : {0, 1}) {  // aligned, and not
          const Tensor flat = randn({shape.numel() + skip}, 5, dtype), before = randn({shape[1]}, 6, dtype);
          const auto part = [&](const Tensor& from) { return reshape(slice(from, 0, skip), shape); };
          const Tensor expected = clone(before), y = to(before, kDevice);
          sums(part(flat), expected, accumulate);
          sums(part(to(flat, kDevice)), y, accumulate);
          EXPECT_LE(max_error(y, expected), dtype == DType::f32 ? 1e-4 : 1e-2)
              << to_string(shape) << name(dtype) << accumulate << skip;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ingot
