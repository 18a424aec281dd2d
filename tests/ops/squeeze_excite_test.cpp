#include "ingot/ops/squeeze_excite.h"

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::randn;

Tensor apply(std::span<const Tensor> in) {
  return squeeze_excite_residual(in[0], in[1], {in[2], in[3], in[4], in[5]});
}

TEST(SqueezeExcite, HoldsForEveryShape) {
  for (const Shape& x : {Shape{1, 1, 1}, Shape{2, 5, 3}, Shape{3, 4, 16}, Shape{5, 2, 35}}) {
    for (const std::int64_t reduced : {1, 2, 17}) {
      const std::int64_t c = x[2];
      check_op({.name = to_string(x) + " reduced to " + std::to_string(reduced),
                .op = apply,
                .inputs = {{x},
                           {x},
                           {.shape = Shape{reduced, c}, .values = [](double v) { return 0.3 * v; }},
                           {Shape{reduced}},
                           {.shape = Shape{c, reduced}, .values = [](double v) { return 0.3 * v; }},
                           {Shape{c}}},
                .half_tolerance = 5e-2});  // weight gradients sum rounded terms over all positions
    }
  }
}

TEST(SqueezeExcite, TakesOneTensorAsInputAndResidual) {
  check_op({.name = "x twice",
            .op =
                [](std::span<const Tensor> in) {
                  return squeeze_excite_residual(in[0], in[0], {in[1], in[2], in[3], in[4]});
                },
            .inputs = {{Shape{2, 3, 20}}, {Shape{2, 20}}, {Shape{2}}, {Shape{20, 2}}, {Shape{20}}},
            .half_tolerance = 0});
}

TEST(SqueezeExcite, RefusesWhatDoesNotFit) {
  const Tensor x = randn({2, 3, 8}, 1), w1 = randn({4, 8}, 2), b1 = randn({4}, 3), w2 = randn({8, 4}, 4),
               b2 = randn({8}, 5);
  EXPECT_NO_THROW(squeeze_excite_residual(x, x, {w1, b1, w2, b2}));
  EXPECT_THROW(squeeze_excite_residual(x, randn({2, 3, 7}, 1), {w1, b1, w2, b2}), ShapeMismatch);
  EXPECT_THROW(squeeze_excite_residual(x, x, {w2, b1, w2, b2}), ShapeMismatch);
  EXPECT_THROW(squeeze_excite_residual(x, x, {w1, b1, w1, b2}), ShapeMismatch);
  EXPECT_THROW(squeeze_excite_residual(b1, b1, {w1, b1, w2, b2}), DimensionMismatch);
}

}  // namespace
}  // namespace ingot
