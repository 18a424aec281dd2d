#include "ingot/ops/loss.h"

#include <cmath>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/matmul.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::max_error;
using testing::randn;

Tensor ids(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

std::vector<std::pair<std::string, CrossEntropyLoss>> variants() {
  return {{"mean", {}},
          {"sum", {.reduction = Reduction::sum}},
          {"denominator", {.denominator = Tensor::scalar(7.5F)}},
          {"smoothing", {.label_smoothing = 0.1F}},
          {"z", {.z_loss = 0.05F}},
          {"softcap", {.softcap = 1.5F}},
          {"all", {.ignore_index = 2, .label_smoothing = 0.2F, .z_loss = 0.02F, .softcap = 3.0F}}};
}

// The options with their denominator on the device of the inputs.
template <class Options>
Options beside(Options options, std::span<const Tensor> inputs) {
  options.denominator = testing::beside(options.denominator, inputs);
  return options;
}

TEST(CrossEntropy, HoldsForEveryVariant) {
  const Tensor targets = ids({0, 3, -100, 1, 2, 2, -100});
  for (const std::int64_t classes : {4, 37, 130}) {
    auto cases = variants();
    cases.push_back({"none", {.reduction = Reduction::none}});
    for (const auto& [name, options] : cases) {
      const Tensor goal = options.ignore_index == 2 ? ids({0, 3, 2, 1, 3, 2, 0}) : targets;
      check_op({.name = name + " " + std::to_string(classes),
                .op =
                    [&, options = options](std::span<const Tensor> in) {
                      return cross_entropy(in[0], testing::beside(goal, in), beside(options, in));
                    },
                .inputs = {{Shape{7, classes}}}});
    }
  }
}

TEST(CrossEntropy, TakesI32TargetsAndLeadingAxes) {
  const NoGrad no_grad;
  const Tensor logits = randn({2, 3, 50}, 1);
  const std::vector<std::int32_t> values{1, 49, -100, 0, 7, 7};
  const Tensor a = cross_entropy(logits, Tensor::from(values, {2, 3}));
  double sum = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    if (values[i] < 0) continue;
    const float* x = logits.data<float>() + i * 50;
    double total = 0;
    for (int j = 0; j < 50; ++j) total += std::exp(static_cast<double>(x[j]));
    sum += std::log(total) - static_cast<double>(x[values[i]]);
  }
  EXPECT_NEAR(a.item(), sum / 5, 1e-6);
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  const Tensor logits = Tensor::from(std::vector<float>{1e4F, -1e4F, 0.0F}, {1, 3});
  EXPECT_FLOAT_EQ(static_cast<float>(cross_entropy(logits, ids({0})).item()), 0.0F);
  EXPECT_FLOAT_EQ(static_cast<float>(cross_entropy(logits, ids({1})).item()), 2e4F);
}

TEST(CrossEntropy, NoValidTargetGivesNoLossAndNoGradient) {
  Tensor logits = randn({2, 5}, 1);
  logits.set_requires_grad(true);
  const Tensor loss = cross_entropy(logits, ids({-100, -100}));
  EXPECT_EQ(loss.item(), 0.0);
  backward(loss);
  EXPECT_EQ(logits.grad().to_vector<float>(), std::vector<float>(10, 0.0F));
}

TEST(CrossEntropy, ATargetOutsideTheVocabularyIsNamed) {
  for (const std::int64_t bad : {std::int64_t{5}, std::int64_t{-1}}) {
    try {
      cross_entropy(Tensor::zeros({3, 5}), ids({1, 2, bad}));
      FAIL();
    } catch (const KernelError& e) {
      const std::string message = e.what();
      EXPECT_NE(message.find("target " + std::to_string(bad) + " at position 2"), std::string::npos)
          << message;
      EXPECT_NE(message.find("vocabulary of 5"), std::string::npos) << message;
    }
  }
  EXPECT_THROW(cross_entropy(Tensor::zeros({3, 5}), ids({1, 2})), ShapeMismatch);
  EXPECT_THROW(cross_entropy(Tensor::zeros({3, 5}), Tensor::zeros({3})), KernelError);
  EXPECT_THROW(linear_cross_entropy(Tensor::zeros({3, 4}), Tensor::zeros({5, 3}), ids({1, 2, 3})),
               ShapeMismatch);
  EXPECT_THROW(linear_cross_entropy(Tensor::zeros({3, 4}), Tensor::zeros({5, 4}), ids({1, 2, 9})),
               KernelError);
  EXPECT_THROW(linear_cross_entropy(Tensor::zeros({1, 4}), Tensor::zeros({5, 4}), ids({1}),
                                    {{.reduction = Reduction::none}}),
               InvalidConfig);
}

TEST(LinearCrossEntropy, HoldsForEveryVariantAndChunk) {
  for (const std::int64_t chunk : {0, 1, 3}) {
    for (const auto& [name, options] : variants()) {
      LinearCrossEntropyLoss all;
      static_cast<CrossEntropyLoss&>(all) = options;
      all.chunk = chunk;
      const Tensor goal =
          options.ignore_index == 2 ? ids({0, 3, 2, 1, 3, 2, 0}) : ids({0, 3, -100, 1, 2, 18, -100});
      check_op({.name = name + " chunk " + std::to_string(chunk),
                .op =
                    [&](std::span<const Tensor> in) {
                      return linear_cross_entropy(in[0], in[1], testing::beside(goal, in), beside(all, in));
                    },
                .inputs = {{Shape{7, 6}}, {Shape{19, 6}}}});
    }
  }
}

TEST(LinearCrossEntropy, EqualsLinearThenCrossEntropy) {
  Tensor w = randn({500, 32}, 2), x = randn({3, 50, 32}, 1);
  std::vector<std::int64_t> values(150);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = i % 9 == 0 ? -100 : static_cast<std::int64_t>(i * 37 % 500);
  const Tensor targets = Tensor::from(values, {3, 50});
  std::vector<Tensor> results[2];
  for (const bool fused : {false, true}) {
    w.set_requires_grad(true).set_grad({});
    x.set_requires_grad(true).set_grad({});
    const Tensor three = Tensor::scalar(3);
    const Tensor loss = fused ? linear_cross_entropy(x, w, targets, {{.denominator = three}, 64})
                              : cross_entropy(linear(x, w), targets, {.denominator = three});
    backward(loss, {.grad = Tensor::scalar(0.5F)});
    results[fused ? 1 : 0] = {loss.detach(), w.grad(), x.grad()};
  }
  for (int i = 0; i < 3; ++i) EXPECT_LE(max_error(results[1][i], results[0][i]), 1e-5) << i;
}

TEST(LinearCrossEntropy, TheGraphCanBeUsedTwiceWhenRetained) {
  Tensor w = randn({20, 8}, 2), x = randn({5, 8}, 1);
  w.set_requires_grad(true);
  x.set_requires_grad(true);
  const Tensor loss = linear_cross_entropy(x, w, ids({1, 2, 3, 4, 5}));
  backward(loss, {.retain_graph = true});
  const Tensor once = clone(w.grad());
  backward(loss);
  const NoGrad no_grad;
  Tensor twice = clone(once.detach());
  for (std::int64_t i = 0; i < twice.numel(); ++i) twice.data<float>()[i] *= 2;
  EXPECT_LE(max_error(w.grad(), twice), 1e-6);
  EXPECT_THROW(backward(loss), Error);
}

using PointwiseFunction = Tensor (*)(const Tensor&, const Tensor&, Reduction);

TEST(PointwiseLosses, HoldForEveryReduction) {
  const auto probability = [](double v) { return 1 / (1 + std::exp(-v)) * 0.98 + 0.01; };
  const std::vector<std::tuple<std::string, PointwiseFunction, bool>> losses{
      {"mse", mse_loss, false},
      {"l1", l1_loss, false},
      {"huber", [](const Tensor& a, const Tensor& b, Reduction r) { return huber_loss(a, b, 0.7F, r); },
       false},
      {"bce", bce_loss, true},
      {"bce_with_logits", bce_with_logits_loss, false}};
  for (const auto& [name, loss, bounded] : losses) {
    for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      for (const Shape& shape : {Shape{1}, Shape{3, 5}, Shape{2, 7, 33}}) {
        testing::InputSpec input{shape}, target{shape};
        if (bounded) input.values = target.values = probability;
        check_op({.name = name + to_string(shape),
                  .op = [&](std::span<const Tensor> in) { return loss(in[0], in[1], reduction); },
                  .inputs = {input, target},
                  .half_tolerance = name == "bce" ? 6e-2 : 3e-2});
      }
    }
  }
}

TEST(PointwiseLosses, BothSidesOfOneTensorGiveNoGradient) {
  Tensor x = randn({6}, 1);
  x.set_requires_grad(true);
  backward(mse_loss(x, x));
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(6, 0.0F));
}

TEST(PointwiseLosses, SureAndWrongIsBounded) {
  const Tensor x = Tensor::from(std::vector<float>{0.0F, 1.0F}, {2}),
               t = Tensor::from(std::vector<float>{1.0F, 0.0F}, {2});
  EXPECT_FLOAT_EQ(static_cast<float>(bce_loss(x, t).item()), 100.0F);
  EXPECT_THROW(mse_loss(x, Tensor::zeros({3})), ShapeMismatch);
  EXPECT_THROW(huber_loss(x, t, 0.0F), InvalidConfig);
}

}  // namespace
}  // namespace ingot
