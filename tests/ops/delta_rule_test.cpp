#include "ingot/ops/delta_rule.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::beside;
using testing::check_op;
using testing::max_error;
using testing::randn;

struct DeltaSizes {
  std::int64_t batch, steps, heads, size, groups, width;
};

std::vector<Shape> delta_shapes(const DeltaSizes& s) {
  return {{s.batch, s.steps, s.heads, s.size},
          {s.batch, s.steps, s.heads},
          {s.batch, s.steps, s.heads},
          {s.batch, s.steps, s.groups, s.width},
          {s.batch, s.steps, s.groups, s.width}};
}

// Two documents, the second from step 2 on.
Tensor two_delta_documents(std::int64_t batch, std::int64_t steps) {
  std::vector<std::int32_t> starts;
  for (std::int64_t i = 0; i < batch * steps; ++i) starts.push_back(i % steps >= 2 ? 2 : 0);
  return Tensor::from(starts, {batch, steps});
}

TEST(DeltaRule, HoldsForEveryShapeWithAndWithoutDocuments) {
  for (const DeltaSizes& s : {DeltaSizes{1, 1, 1, 1, 1, 1}, DeltaSizes{2, 3, 4, 3, 2, 5},
                              DeltaSizes{1, 5, 1, 9, 1, 4}, DeltaSizes{1, 3, 2, 2, 2, 35}}) {
    for (const bool packed : {false, true}) {
      const Tensor starts = packed ? two_delta_documents(s.batch, s.steps) : Tensor();
      const std::vector<Shape> in = delta_shapes(s);
      const double key = 1 / std::sqrt(static_cast<double>(s.width));  // as if they were normalized
      check_op({.name = to_string(in[0]) + ", groups and width " + to_string(in[3]),
                .op =
                    [&](std::span<const Tensor> x) {
                      return delta_rule({x[0], x[1], x[2], x[3], x[4], beside(starts, x)});
                    },
                .inputs = {{in[0]},
                           {.shape = in[1], .values = [](double v) { return -0.3 * v * v; }},
                           {.shape = in[2], .values = [](double v) { return 1 / (1 + std::exp(-v)); }},
                           {.shape = in[3], .values = [key](double v) { return key * v; }},
                           {in[4]}},
                .f32_tolerance = 5e-5,
                .half_tolerance = 1e-1});  // sums of up to 350 products with rounded gradients
    }
  }
}

// Shapes whose f32 kernels take chunks: below one, one and a few steps more, several.
TEST(DeltaRule, HoldsInChunksOfSteps) {
  for (const bool packed : {false, true}) {
    const DeltaSizes s{1, 17, 2, 16, 1, 16};
    const Tensor starts = packed ? two_delta_documents(s.batch, s.steps) : Tensor();
    const std::vector<Shape> in = delta_shapes(s);
    check_op({.name = packed ? "17 steps, two documents" : "17 steps",
              .op =
                  [&](std::span<const Tensor> x) {
                    return delta_rule({x[0], x[1], x[2], x[3], x[4], beside(starts, x)});
                  },
              .inputs = {{in[0]},
                         {.shape = in[1], .values = [](double v) { return -0.3 * v * v; }},
                         {.shape = in[2], .values = [](double v) { return 1 / (1 + std::exp(-v)); }},
                         {.shape = in[3], .values = [](double v) { return v / 4; }},
                         {in[4]}},
              .f32_tolerance = 5e-5,
              .half_tolerance = 1e-1});
  }
}

struct LongDelta {
  std::vector<Tensor> inputs;
  Tensor starts;
};

// Normalized keys, as models have them; documents begin at the steps `begins` of every row.
LongDelta long_delta(const DeltaSizes& s, const std::vector<std::int64_t>& begins, double decay) {
  const std::vector<Shape> in = delta_shapes(s);
  LongDelta made{{randn(in[0], 1), square(randn(in[1], 2)) * -decay, sigmoid(randn(in[2], 3)),
                  randn(in[3], 4) * (1 / std::sqrt(static_cast<double>(s.width))),
                  randn(in[4], 5) * (1 / std::sqrt(static_cast<double>(s.width)))},
                 {}};
  if (begins.empty()) return made;
  std::vector<std::int32_t> starts;
  for (std::int64_t i = 0; i < s.batch * s.steps; ++i) {
    const auto after = std::ranges::upper_bound(begins, i % s.steps);
    starts.push_back(static_cast<std::int32_t>(after == begins.begin() ? 0 : *std::prev(after)));
  }
  made.starts = Tensor::from(starts, {s.batch, s.steps});
  return made;
}

// y and the gradients of Σ y·weight by each input.
std::vector<Tensor> values_and_gradients(const LongDelta& of, DType dtype) {
  std::vector<Tensor> x;
  for (const Tensor& input : of.inputs) {
    x.push_back(to(input, dtype));
    x.back().set_requires_grad(true);
  }
  const Tensor y = delta_rule({x[0], x[1], x[2], x[3], x[4], of.starts});
  backward(sum(y * to(randn(y.shape(), 9), dtype)));
  std::vector<Tensor> all{y.detach()};
  for (const Tensor& input : x) all.push_back(input.grad());
  return all;
}

TEST(DeltaRule, ChunksEqualStepByStepAcrossTheirBordersAndThoseOfDocuments) {
  const struct {
    DeltaSizes sizes;
    std::vector<std::int64_t> begins;
    double decay;
  } cases[] = {
      {{1, 64, 1, 16, 1, 16}, {}, 0.1},
      {{2, 130, 2, 16, 1, 32}, {}, 0.1},
      {{1, 200, 2, 80, 2, 16}, {}, 0.02},
      {{1, 150, 1, 16, 1, 16}, {1, 2, 60, 64, 100, 149}, 0.1},
      {{2, 129, 2, 32, 1, 16}, {64, 128}, 0.1},
      {{1, 140, 1, 16, 1, 16}, {}, 30},
      {{1, 1100, 1, 16, 1, 16}, {500}, 0.01},
      {{1, 4300, 1, 16, 1, 16}, {500, 4200}, 0.01},  // so long that not all chunks keep their states
  };
  for (const auto& [sizes, begins, decay] : cases) {
    const LongDelta of = long_delta(sizes, begins, decay);
    const std::vector<Tensor> chunked = values_and_gradients(of, DType::f32),
                              exact = values_and_gradients(of, DType::f64);
    for (std::size_t i = 0; i < exact.size(); ++i)
      EXPECT_LE(max_error(chunked[i], exact[i]), 2e-5) << sizes.steps << " steps, " << begins.size() + 1
                                                       << " documents, decay " << decay << ", result " << i;
  }
}

TEST(DeltaRule, ADecayOfMinusInfinityForgetsEverythingBefore) {
  LongDelta of = long_delta({1, 80, 1, 16, 1, 16}, {}, 0.1);
  std::vector<float> decay = of.inputs[1].to_vector<float>();
  decay[20] = decay[70] = -std::numeric_limits<float>::infinity();
  of.inputs[1] = Tensor::from(decay, of.inputs[1].shape());
  const NoGrad no_grad;
  const std::vector<Tensor>& x = of.inputs;
  const Tensor y = delta_rule({x[0], x[1], x[2], x[3], x[4]});
  const auto rest = [](const Tensor& t) { return narrow(t, 1, 20, 60); };
  EXPECT_LE(max_error(rest(y), delta_rule({rest(x[0]), rest(x[1]), rest(x[2]), rest(x[3]), rest(x[4])})),
            1e-5);
}

// The engine cuts prompts where it likes: at multiples of a chunk with the same bits, elsewhere to rounding.
TEST(DeltaRule, LongPiecesBehindTheirStateGiveTheWhole) {
  const NoGrad no_grad;
  const std::vector<Tensor> x = long_delta({1, 330, 2, 32, 1, 16}, {}, 0.05).inputs;
  const Tensor given = randn({1, 2, 32, 16}, 7);
  const auto run = [&](std::int64_t from, std::int64_t count, const Tensor& state) {
    const auto piece = [&](const Tensor& t) { return narrow(t, 1, from, count); };
    return delta_rule({piece(x[0]), piece(x[1]), piece(x[2]), piece(x[3]), piece(x[4])}, state);
  };
  const Tensor last = clone(given), whole = run(0, 330, last);
  for (const std::int64_t cut : {64, 128, 320, 5, 100, 329}) {
    const Tensor state = clone(given), head = run(0, cut, state), tail = run(cut, 330 - cut, state);
    const double bound = cut % 64 == 0 ? 0 : 1e-5;
    EXPECT_LE(max_error(head, narrow(whole, 1, 0, cut)), bound) << cut;
    EXPECT_LE(max_error(tail, narrow(whole, 1, cut, 330 - cut)), bound) << cut;
    EXPECT_LE(max_error(state, last), bound) << cut;
  }
}

// With beta 1 and keys of length 1 the state answers each key with its value at once, whatever was there.
TEST(DeltaRule, AnswersAKeyWithTheValueThatItCameWith) {
  const NoGrad no_grad;
  const Tensor x = randn({1, 6, 2, 5}, 1), decay = square(randn({1, 6, 2}, 2)) * -0.4;
  const Tensor keys = randn({1, 6, 1, 7}, 3), one = Tensor::zeros({1, 6, 2}) + 1.0;
  const Tensor unit =
      keys / reshape(sqrt(matmul(reshape(square(keys), {6, 7}), Tensor::zeros({7, 1}) + 1.0)), {1, 6, 1, 1});
  EXPECT_LE(max_error(delta_rule({x, decay, one, unit, unit}), x), 1e-5);
}

TEST(DeltaRule, PiecesBehindTheirStateGiveTheBitsOfTheWhole) {
  const NoGrad no_grad;
  const std::vector<Shape> in = delta_shapes({2, 11, 4, 5, 2, 12});
  const Tensor x = randn(in[0], 1), decay = square(randn(in[1], 2)) * -0.3, beta = sigmoid(randn(in[2], 5)),
               keys = randn(in[3], 3) * 0.3, queries = randn(in[4], 4);
  const Tensor whole = delta_rule({x, decay, beta, keys, queries});
  const Tensor state = Tensor::zeros({2, 4, 5, 12});
  for (std::int64_t at = 0; at < 11;) {
    const std::int64_t count = at == 0 ? 4 : at == 5 ? 3 : 1;
    const auto piece = [&](const Tensor& t) { return narrow(t, 1, at, count); };
    const Tensor y = delta_rule({piece(x), piece(decay), piece(beta), piece(keys), piece(queries)}, state);
    EXPECT_EQ(max_error(y, piece(whole)), 0) << "step " << at;
    at += count;
  }
}

TEST(DeltaRule, InfinitiesStayInTheirDocument) {
  const std::vector<Shape> in = delta_shapes({1, 5, 1, 3, 1, 4});
  for (const bool in_first : {true, false}) {
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < in.size(); ++i) {
      std::vector<float> values = (randn(in[i], i + 1) * 0.5).to_vector<float>();
      const std::size_t step = values.size() / 5, first = in_first ? 0 : 2 * step;
      if (i == 0 || i + 2 >= in.size())  // of two steps: x, keys and queries
        std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(first), 2 * step,
                    std::numeric_limits<float>::infinity());
      inputs.push_back(Tensor::from(values, in[i]));
      inputs.back().set_requires_grad(true);
    }
    const Tensor y =
        delta_rule({inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], two_delta_documents(1, 5)});
    backward(sum(y));
    const std::int64_t begin = in_first ? 2 : 0, count = in_first ? 3 : 2;
    const auto expect_finite = [&](const Tensor& x) {
      const std::vector<float> values = clone(narrow(x.detach(), 1, begin, count)).to_vector<float>();
      for (const float value : values) EXPECT_TRUE(std::isfinite(value));
    };
    expect_finite(y);
    for (const Tensor& input : inputs) expect_finite(input.grad());
  }
}

TEST(DeltaRule, RefusesWhatDoesNotFit) {
  const Tensor x = randn({1, 4, 3, 2}, 1), decay = randn({1, 4, 3}, 2), keys = randn({1, 4, 1, 5}, 3);
  EXPECT_THROW(delta_rule({randn({4, 3, 2}, 1), decay, decay, keys, keys}), DimensionMismatch);
  EXPECT_THROW(delta_rule({x, decay, decay, randn({1, 4, 5}, 1), keys}), DimensionMismatch);
  EXPECT_THROW(delta_rule({x, decay, decay, randn({1, 4, 2, 5}, 1), keys}), DimensionMismatch);
  EXPECT_THROW(delta_rule({x, randn({1, 4, 2}, 1), decay, keys, keys}), ShapeMismatch);
  EXPECT_THROW(delta_rule({x, decay, randn({1, 4, 2}, 1), keys, keys}), ShapeMismatch);
  EXPECT_THROW(delta_rule({x, decay, decay, keys, randn({1, 4, 1, 4}, 1)}), ShapeMismatch);
  EXPECT_THROW(delta_rule({x, decay, decay, keys, keys, two_delta_documents(1, 3)}), ShapeMismatch);
  EXPECT_THROW(delta_rule({x, decay, decay, keys, keys}, Tensor::zeros({1, 3, 2, 4})), ShapeMismatch);
  Tensor learned = randn({1, 4, 3, 2}, 1);
  learned.set_requires_grad(true);
  EXPECT_THROW(delta_rule({learned, decay, decay, keys, keys}, Tensor::zeros({1, 3, 2, 5})), Error);
}

}  // namespace
}  // namespace ingot
