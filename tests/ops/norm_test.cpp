#include "ingot/ops/norm.h"

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::filled;
using testing::InputSpec;

TEST(RmsNorm, HoldsForEveryShape) {
  const auto op = [](std::span<const Tensor> in) { return rms_norm(in[0], in[1], 1e-5F); };
  for (const Shape& shape :
       {Shape{1, 1}, Shape{3, 5}, Shape{2, 3, 16}, Shape{7, 33}, Shape{4, 64}, Shape{2, 131}}) {
    check_op({.name = to_string(shape), .op = op, .inputs = {{shape}, {Shape{shape.back()}}}});
  }
}

TEST(RmsNorm, AddsAnOffsetToTheWeight) {
  const auto op = [](std::span<const Tensor> in) { return rms_norm(in[0], in[1], 1e-5F, 1.0F); };
  for (const Shape& shape : {Shape{3, 5}, Shape{7, 33}, Shape{4, 64}}) {
    check_op({.name = to_string(shape), .op = op, .inputs = {{shape}, {Shape{shape.back()}}}});
  }
}

TEST(RmsNorm, RefusesAWeightOfAnotherWidth) {
  EXPECT_THROW(rms_norm(testing::randn({2, 4}, 1), testing::randn({3}, 2)), ShapeMismatch);
}

TEST(LayerNorm, HoldsForEveryShapeWithAndWithoutWeightAndBias) {
  const auto both = [](std::span<const Tensor> in) { return layer_norm(in[0], in[1], in[2]); };
  const auto neither = [](std::span<const Tensor> in) { return layer_norm(in[0], {}, {}); };
  for (const Shape& shape : {Shape{3, 5}, Shape{2, 3, 16}, Shape{7, 33}, Shape{2, 131}}) {
    const Shape width{shape.back()};
    check_op({.name = to_string(shape), .op = both, .inputs = {{shape}, {width}, {width}}});
    check_op({.name = to_string(shape) + " plain", .op = neither, .inputs = {{shape}}});
  }
}

TEST(LayerNorm, StaysExactFarFromZero) {
  const auto far = [](double x) { return x + 1000.0; };
  check_op({.name = "mean 1000",
            .op = [](std::span<const Tensor> in) { return layer_norm(in[0], {}, {}); },
            .inputs = {{.shape = {3, 64}, .values = far}},
            .f32_tolerance = 1e-3,  // f32 knows 1000 to 6e-5, and the deviation is 1
            .half_tolerance = 0});
}

// Both outputs in one, so that a gradient comes to each.
Tensor joined(const NormedSum& outputs) { return outputs.normed + 0.5 * outputs.sum; }

const Shape kShapes[] = {{1, 1}, {3, 5}, {2, 3, 16}, {7, 33}, {4, 64}, {2, 131}};

TEST(AddRmsNorm, HoldsWhicheverOutputIsUsed) {
  const auto add = [](std::span<const Tensor> in) { return add_rms_norm(in[0], in[1], in[2], 1e-5F, 1.0F); };
  for (const Shape& shape : kShapes) {
    const std::vector<InputSpec> inputs{{shape}, {shape}, {Shape{shape.back()}}};
    const std::string name = to_string(shape);
    check_op({.name = name + " both",
              .op = [=](std::span<const Tensor> in) { return joined(add(in)); },
              .inputs = inputs});
    check_op({.name = name + " the norm",
              .op = [=](std::span<const Tensor> in) { return add(in).normed; },
              .inputs = inputs});
  }
}

TEST(AddLayerNorm, HoldsWhicheverOutputIsUsed) {
  const auto add = [](std::span<const Tensor> in) { return add_layer_norm(in[0], in[1], in[2], in[3]); };
  for (const Shape& shape : kShapes) {
    const Shape width{shape.back()};
    const std::vector<InputSpec> inputs{{shape}, {shape}, {width}, {width}};
    const std::string name = to_string(shape);
    check_op({.name = name + " both",
              .op = [=](std::span<const Tensor> in) { return joined(add(in)); },
              .inputs = inputs,
              .f32_tolerance = 5e-5});
    check_op({.name = name + " the norm",
              .op = [=](std::span<const Tensor> in) { return add(in).normed; },
              .inputs = inputs,
              .f32_tolerance = 5e-5});
  }
}

TEST(AddNorm, GivesTheSumAndItsNorm) {
  const Tensor x = testing::randn({3, 40}, 1), residual = testing::randn({40, 3}, 2);
  const Tensor weight = testing::randn({40}, 3), bias = testing::randn({40}, 4);
  const NormedSum layer = add_layer_norm(x, transpose(residual, 0, 1), weight, bias);
  const NormedSum rms = add_rms_norm(x, transpose(residual, 0, 1), weight);
  const Tensor sum = x + transpose(residual, 0, 1);
  EXPECT_EQ(layer.sum.to_vector<float>(), sum.to_vector<float>());
  EXPECT_EQ(rms.sum.to_vector<float>(), sum.to_vector<float>());
  EXPECT_EQ(layer.normed.to_vector<float>(), layer_norm(sum, weight, bias).to_vector<float>());
  EXPECT_EQ(rms.normed.to_vector<float>(), rms_norm(sum, weight).to_vector<float>());
}

TEST(AddNorm, PutsTheSumWhereItIsWanted) {
  const Tensor x = testing::randn({3, 40}, 1), residual = testing::randn({3, 40}, 2);
  const Tensor weight = testing::randn({40}, 3), bias = testing::randn({40}, 4);
  const NormedSum layer = add_layer_norm(x, residual, weight, bias), rms = add_rms_norm(x, residual, weight);
  {
    const NoGrad no_grad;
    const Tensor output = Tensor::zeros({3, 40});
    EXPECT_EQ(add_layer_norm(x, residual, weight, bias, 1e-5F, output).normed.to_vector<float>(),
              layer.normed.to_vector<float>());
    EXPECT_EQ(output.to_vector<float>(), layer.sum.to_vector<float>());
    zero_(output);
    EXPECT_EQ(add_rms_norm(x, residual, weight, 1e-5F, 0.0F, output).normed.to_vector<float>(),
              rms.normed.to_vector<float>());
    EXPECT_EQ(output.to_vector<float>(), rms.sum.to_vector<float>());
    EXPECT_THROW(add_rms_norm(x, residual, weight, 1e-5F, 0.0F, Tensor::zeros({40, 3})), ShapeMismatch);
  }
  EXPECT_THROW(add_rms_norm(x, residual, weight, 1e-5F, 0.0F, Tensor::zeros({3, 40})), Error);  // no gradient
}

TEST(AddNorm, TheGradientsAreThoseOfTheTwoOperations) {
  const auto gradients = [](bool fused) {
    Tensor x = testing::randn({5, 24}, 1), residual = testing::randn({5, 24}, 2);
    Tensor weight = testing::randn({24}, 3);
    for (Tensor* t : {&x, &residual, &weight}) t->set_requires_grad(true);
    const Tensor doubled = 2.0 * x;  // an inner node, to which the residual's gradient goes too
    const Tensor plain = doubled + residual;
    const NormedSum out =
        fused ? add_rms_norm(doubled, residual, weight) : NormedSum{plain, rms_norm(plain, weight)};
    backward(sum(out.normed * out.sum + out.sum * doubled));
    std::vector<Tensor> result{x.grad(), residual.grad(), weight.grad()};
    return result;
  };
  const auto fused = gradients(true), apart = gradients(false);
  for (std::size_t i = 0; i < fused.size(); ++i) EXPECT_LT(testing::max_error(fused[i], apart[i]), 1e-5) << i;
}

TEST(Norms, SumTheGradientsOfHalfTypesInF32) {
  const auto gradient = [](DType dtype, bool rms) {
    Tensor x = to(testing::randn({3000, 40}, 1, DType::bf16), dtype);  // the same values in both
    Tensor weight = to(filled({40}, 1.0F), dtype), bias = to(Tensor::zeros({40}), dtype);
    weight.set_requires_grad(true);
    bias.set_requires_grad(true);
    const Tensor dy = to(filled(x.shape(), 1.0F / 256), dtype);
    backward(sum((rms ? rms_norm(x, weight) : layer_norm(x, weight, bias)) * dy));
    return rms ? weight.grad() : bias.grad();
  };
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const bool rms : {true, false}) {
      EXPECT_LT(testing::max_error(to(gradient(dtype, rms), DType::f32), gradient(DType::f32, rms)), 0.004)
          << name(dtype) << rms;  // one rounding of the sum to bf16's 8 bits
    }
  }
}

TEST(AddNorm, RefusesSummandsOfTwoShapes) {
  const Tensor weight = testing::randn({4}, 3);
  EXPECT_THROW(add_rms_norm(testing::randn({2, 4}, 1), testing::randn({4}, 2), weight), ShapeMismatch);
  EXPECT_THROW(add_layer_norm(testing::randn({2, 4}, 1), testing::randn({1, 4}, 2), weight, {}),
               ShapeMismatch);
  EXPECT_THROW(add_rms_norm(testing::randn({2, 3}, 1), testing::randn({2, 3}, 2), weight), ShapeMismatch);
}

}  // namespace
}  // namespace ingot
