#include "ingot/ops/squeeze_excite.h"

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::randn;

Tensor apply(std::span<const Tensor> in) {
  return squeeze_excite_residual(in[0], in[1], {in[2], in[3], in[4], in[5]});
}

Tensor apply_dual_pool(std::span<const Tensor> in) {
  return dual_pool_residual(in[0], in[1], {in[2], in[3], in[4], in[5]});
}

// Every shape that a kernel treats in another way: registers' tails, one position, few and many hidden units.
void check_shapes(const char* name, Tensor (*op)(std::span<const Tensor>)) {
  for (const Shape& x : {Shape{1, 1, 1}, Shape{2, 5, 3}, Shape{3, 4, 16}, Shape{5, 2, 35}}) {
    for (const std::int64_t reduced : {1, 2, 17}) {
      const std::int64_t c = x[2];
      check_op({.name = name + to_string(x) + " reduced to " + std::to_string(reduced),
                .op = op,
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

TEST(SqueezeExcite, HoldsForEveryShape) { check_shapes("one pool ", apply); }
TEST(SqueezeExcite, HoldsWithTwoPoolsForEveryShape) { check_shapes("two pools ", apply_dual_pool); }

// What the ops that it stands for give, one by one.
TEST(SqueezeExcite, TwoPoolsGiveWhatTheirOpsGiveAlsoWhereMaximaAreShared) {
  const auto apart = [](const Tensor& x, const Tensor& residual, const SqueezeExciteWeights& w) {
    const auto mlp = [&](const Tensor& pooled) {
      return matmul(relu(matmul(pooled, transpose(w.w1, 0, 1)) + w.b1), transpose(w.w2, 0, 1)) + w.b2;
    };
    const Tensor gate = sigmoid(mlp(mean(x, {1})) + mlp(max(x, {1})));
    return residual + x * reshape(gate, {gate.dim(0), 1, gate.dim(1)});
  };
  const auto gradients = [&](const auto& block) {
    std::vector<Tensor> leaves;
    const std::vector<Shape> shapes = {{3, 6, 19}, {3, 6, 19}, {4, 19}, {4}, {19, 4}, {19}};
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      Tensor leaf = randn(shapes[i], 10 + i);
      if (i == 0) leaf = round(leaf);  // so that many positions have the largest value
      leaves.push_back(leaf.set_requires_grad(true));
    }
    const Tensor y = block(leaves[0], leaves[1], {leaves[2], leaves[3], leaves[4], leaves[5]});
    backward(sum(y * randn(y.shape(), 99)));
    std::vector<float> all = y.detach().to_vector<float>();
    for (const Tensor& leaf : leaves) {
      const std::vector<float> grad = leaf.grad().to_vector<float>();
      all.insert(all.end(), grad.begin(), grad.end());
    }
    return all;
  };
  const std::vector<float> found =
      gradients([](const Tensor& x, const Tensor& r, const SqueezeExciteWeights& w) {
        return dual_pool_residual(x, r, w);
      });
  const std::vector<float> expected = gradients(apart);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-5) << i;
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
  const Tensor nowhere = Tensor::zeros({2, 0, 8}, DType::f32);
  EXPECT_THROW(squeeze_excite_residual(nowhere, nowhere, {w1, b1, w2, b2}), DimensionMismatch);
  EXPECT_THROW(dual_pool_residual(nowhere, nowhere, {w1, b1, w2, b2}), DimensionMismatch);
  EXPECT_THROW(squeeze_excite_residual(b1, b1, {w1, b1, w2, b2}), DimensionMismatch);
}

}  // namespace
}  // namespace ingot
