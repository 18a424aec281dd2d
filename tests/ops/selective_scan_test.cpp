#include "ingot/ops/selective_scan.h"

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

struct Sizes {
  std::int64_t batch, steps, heads, size, groups, width;
};

std::vector<Shape> shapes(const Sizes& s) {
  return {{s.batch, s.steps, s.heads, s.size},
          {s.batch, s.steps, s.heads},
          {s.batch, s.steps, s.groups, s.width},
          {s.batch, s.steps, s.groups, s.width}};
}

// Two documents, the second from step 2 on.
Tensor two_documents(std::int64_t batch, std::int64_t steps) {
  std::vector<std::int32_t> starts;
  for (std::int64_t i = 0; i < batch * steps; ++i) starts.push_back(i % steps >= 2 ? 2 : 0);
  return Tensor::from(starts, {batch, steps});
}

TEST(SelectiveScan, HoldsForEveryShapeWithAndWithoutDocuments) {
  for (const Sizes& s : {Sizes{1, 1, 1, 1, 1, 1}, Sizes{2, 4, 4, 3, 2, 5}, Sizes{1, 5, 2, 18, 1, 8},
                         Sizes{1, 3, 2, 2, 2, 35}}) {
    for (const bool packed : {false, true}) {
      const Tensor starts = packed ? two_documents(s.batch, s.steps) : Tensor();
      const std::vector<Shape> in = shapes(s);
      check_op({.name = to_string(in[0]) + ", groups and width " + to_string(in[2]),
                .op =
                    [&](std::span<const Tensor> x) {
                      return selective_scan({x[0], x[1], x[2], x[3], beside(starts, x)});
                    },
                .inputs = {{in[0]},
                           {.shape = in[1], .values = [](double v) { return -0.3 * v * v; }},
                           {in[2]},
                           {in[3]}},
                .f32_tolerance = 5e-5,
                .half_tolerance = 1e-1});  // sums of up to 720 products with rounded gradients
    }
  }
}

// y[t] = Σ_s (queries[t] · keys[s]) · exp(Σ decay[s + 1 .. t]) · x[s]: the paper's dual form, attention with
// a mask of decays.
TEST(SelectiveScan, IsAttentionWithAMaskOfDecays) {
  const NoGrad no_grad;
  const Tensor x = randn({1, 9, 1, 4}, 1), keys = randn({1, 9, 1, 6}, 2), queries = randn({1, 9, 1, 6}, 3);
  const Tensor decay = square(randn({1, 9, 1}, 4)) * -0.5;
  const std::vector<float> d = decay.to_vector<float>();
  std::vector<float> mask;
  for (std::size_t t = 0; t < 9; ++t) {
    for (std::size_t s = 0; s < 9; ++s) {
      double sum = 0;
      for (std::size_t i = s + 1; i <= t; ++i) sum += static_cast<double>(d[i]);
      mask.push_back(s <= t ? static_cast<float>(std::exp(sum)) : 0.0F);
    }
  }
  const auto matrix = [](const Tensor& a) { return reshape(a, {9, -1}); };
  const Tensor scores = matmul(matrix(queries), transpose(matrix(keys), 0, 1)) * Tensor::from(mask, {9, 9});
  EXPECT_LE(max_error(matrix(selective_scan({x, decay, keys, queries})), matmul(scores, matrix(x))), 1e-5);
}

TEST(SelectiveScan, PiecesBehindTheirStateGiveTheBitsOfTheWhole) {
  const NoGrad no_grad;
  const std::vector<Shape> in = shapes({2, 11, 4, 5, 2, 12});
  const Tensor x = randn(in[0], 1), decay = square(randn(in[1], 2)) * -0.3, keys = randn(in[2], 3),
               queries = randn(in[3], 4);
  const Tensor whole = selective_scan({x, decay, keys, queries});
  const Tensor state = Tensor::zeros({2, 4, 5, 12});
  for (std::int64_t at = 0; at < 11;) {
    const std::int64_t count = at == 0 ? 4 : at == 5 ? 3 : 1;
    const auto piece = [&](const Tensor& t) { return narrow(t, 1, at, count); };
    const Tensor y = selective_scan({piece(x), piece(decay), piece(keys), piece(queries)}, state);
    EXPECT_EQ(max_error(y, piece(whole)), 0) << "step " << at;
    at += count;
  }
}

TEST(SelectiveScan, InfinitiesStayInTheirDocument) {
  const std::vector<Shape> in = shapes({1, 5, 1, 3, 1, 4});
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
    const Tensor y = selective_scan({inputs[0], inputs[1], inputs[2], inputs[3], two_documents(1, 5)});
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

TEST(SelectiveScan, RefusesWhatDoesNotFit) {
  const Tensor x = randn({1, 4, 3, 2}, 1), decay = randn({1, 4, 3}, 2), keys = randn({1, 4, 1, 5}, 3);
  EXPECT_THROW(selective_scan({randn({4, 3, 2}, 1), decay, keys, keys}), DimensionMismatch);
  EXPECT_THROW(selective_scan({x, decay, randn({1, 4, 5}, 1), keys}), DimensionMismatch);
  EXPECT_THROW(selective_scan({x, decay, randn({1, 4, 2, 5}, 1), keys}), DimensionMismatch);
  EXPECT_THROW(selective_scan({x, randn({1, 4, 2}, 1), keys, keys}), ShapeMismatch);
  EXPECT_THROW(selective_scan({x, decay, keys, randn({1, 4, 1, 4}, 1)}), ShapeMismatch);
  EXPECT_THROW(selective_scan({x, decay, keys, keys, two_documents(1, 3)}), ShapeMismatch);
  EXPECT_THROW(selective_scan({x, decay, keys, keys}, Tensor::zeros({1, 3, 2, 4})), ShapeMismatch);
  Tensor learned = randn({1, 4, 3, 2}, 1);
  learned.set_requires_grad(true);
  EXPECT_THROW(selective_scan({learned, decay, keys, keys}, Tensor::zeros({1, 3, 2, 5})), Error);
}

}  // namespace
}  // namespace ingot
