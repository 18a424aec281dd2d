#include "ingot/ops/causal_conv.h"

#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/kernels/kernel.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/conv.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::beside;
using testing::check_op;
using testing::max_error;
using testing::randn;

// Documents of `size` steps, the last one shorter: the first step of each step's.
Tensor documents(std::int64_t batch, std::int64_t steps, std::int64_t size) {
  std::vector<std::int32_t> starts;
  for (std::int64_t i = 0; i < batch * steps; ++i)
    starts.push_back(static_cast<std::int32_t>(i % steps / size * size));
  return Tensor::from(starts, {batch, steps});
}

TEST(CausalConv, HoldsForEveryShapeWithAndWithoutBiasAndDocuments) {
  struct Case {
    std::int64_t batch, steps, channels, taps;
  };
  for (const Case& t : {Case{1, 1, 1, 1}, Case{2, 7, 5, 3}, Case{1, 19, 16, 4}, Case{2, 3, 70, 4},
                        Case{1, 9, 8, 8}, Case{1, 12, 3, 11}}) {
    for (const bool bias : {false, true}) {
      for (const bool packed : {false, true}) {
        const Tensor starts = packed ? documents(t.batch, t.steps, 4) : Tensor();
        std::vector<testing::InputSpec> inputs{{Shape{t.batch, t.steps, t.channels}},
                                               {Shape{t.channels, t.taps}}};
        if (bias) inputs.push_back({Shape{t.channels}});
        check_op({.name = to_string(inputs[0].shape) + " of " + std::to_string(t.taps) + " taps",
                  .op =
                      [&](std::span<const Tensor> in) {
                        return causal_conv(in[0], in[1], in.size() > 2 ? in[2] : Tensor(),
                                           {.starts = beside(starts, in)});
                      },
                  .inputs = inputs,
                  .half_tolerance = 4e-2});
      }
    }
  }
}

// More rows than a block has and than a GPU's part sums.
TEST(CausalConv, HoldsForManySteps) {
  check_op({.name = "300 steps",
            .op = [](std::span<const Tensor> in) { return causal_conv(in[0], in[1], in[2]); },
            .inputs = {{Shape{1, 300, 3}}, {Shape{3, 3}}, {Shape{3}}},
            .half_tolerance = 8e-2});
}

// Such a document began before x: nothing in front of x's first step is read.
TEST(CausalConv, StartsBelowZeroAreThoseAtZero) {
  const Tensor below = Tensor::from<std::int32_t>({-7, -1, -1, 2, 2}, {1, 5});
  const Tensor zero = Tensor::from<std::int32_t>({0, 0, 0, 2, 2}, {1, 5});
  const auto run = [](const Tensor& starts, bool with_past) {
    std::vector<Tensor> results;
    Tensor x = randn({1, 5, 3}, 1), weight = randn({3, 4}, 2);
    {
      const NoGrad no_grad;
      const Tensor past = with_past ? randn({1, 3, 3}, 3) : Tensor();
      results.push_back(causal_conv(x, weight, {}, {.past = past, .starts = starts}));
    }
    x.set_requires_grad(true);
    weight.set_requires_grad(true);
    backward(sum(causal_conv(x, weight, {}, {.starts = starts})));
    results.push_back(x.grad());
    results.push_back(weight.grad());
    return results;
  };
  const auto check = [&](const char* kernel) {
    for (const bool past : {false, true}) {
      const std::vector<Tensor> actual = run(below, past), expected = run(zero, past);
      for (std::size_t i = 0; i < actual.size(); ++i)
        EXPECT_EQ(max_error(actual[i], expected[i]), 0) << kernel << ", result " << i;
    }
  };
  check("simd");
  const kernels::ForceKind reference(kernels::ImplKind::reference);
  check("reference");
}

TEST(CausalConv, IsTheGroupedConvolutionWithZerosInFront) {
  const NoGrad no_grad;
  const Tensor x = randn({2, 9, 6}, 1), weight = randn({6, 4}, 2), bias = randn({6}, 3);
  const Tensor padded = conv1d(transpose(x, 1, 2), unsqueeze(weight, 1), bias, {.padding = 3, .groups = 6});
  EXPECT_LE(max_error(causal_conv(x, weight, bias), transpose(narrow(padded, 2, 0, 9), 1, 2)), 1e-6);
}

TEST(CausalConv, PiecesBehindTheirPastGiveTheBitsOfTheWhole) {
  const NoGrad no_grad;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor x = randn({2, 11, 33}, 1, dtype), weight = randn({33, 4}, 2, dtype);
    const Tensor whole = causal_conv(x, weight);
    Tensor past = Tensor::zeros({2, 3, 33}, dtype);
    for (std::int64_t at = 0; at < 11;) {
      const std::int64_t count = at == 0 ? 2 : at == 3 ? 5 : 1;
      const Tensor piece = narrow(x, 1, at, count);
      const Tensor y = causal_conv(piece, weight, {}, {.past = past});
      EXPECT_EQ(max_error(y, narrow(whole, 1, at, count)), 0) << "step " << at;
      past = contiguous(narrow(concat(std::vector<Tensor>{past, piece}, 1), 1, count, 3));
      at += count;
    }
  }
}

TEST(CausalConv, RefusesWhatDoesNotFit) {
  const Tensor x = randn({2, 6, 4}, 1), w = randn({4, 3}, 2);
  EXPECT_THROW(causal_conv(randn({6, 4}, 1), w), DimensionMismatch);
  EXPECT_THROW(causal_conv(x, randn({5, 3}, 2)), ShapeMismatch);
  EXPECT_THROW(causal_conv(x, randn({4, 1, 3}, 2)), ShapeMismatch);
  EXPECT_THROW(causal_conv(x, w, randn({3}, 2)), ShapeMismatch);
  EXPECT_THROW(causal_conv(x, w, {}, {.past = randn({2, 3, 4}, 3)}), ShapeMismatch);
  EXPECT_THROW(causal_conv(x, w, {}, {.starts = documents(2, 5, 2)}), ShapeMismatch);
  EXPECT_THROW(causal_conv(x, w, {}, {.starts = randn({2, 6}, 3)}), DimensionMismatch);
  Tensor learned = randn({4, 3}, 2);
  learned.set_requires_grad(true);
  EXPECT_THROW(causal_conv(x, learned, {}, {.past = randn({2, 2, 4}, 3)}), Error);
}

}  // namespace
}  // namespace ingot
