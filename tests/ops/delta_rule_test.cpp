#include "ingot/ops/delta_rule.h"

#include <algorithm>
#include <cmath>
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
