#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::checked_device;
using testing::max_error;
using testing::randn;

// What swiglu_linear stands for.
Tensor composed(const Tensor& gate_up, const LinearWeights& down) {
  const std::vector<Tensor> halves = chunk(gate_up, 2, -1);
  return linear(silu_mul(halves[0], halves[1]), down.weight, down.bias);
}

TEST(SwigluLinear, HoldsForEveryShape) {
  for (const bool bias : {false, true}) {
    for (const auto& [rows, in, out] : std::vector<std::tuple<Shape, std::int64_t, std::int64_t>>{
             {{3}, 5, 4}, {{2, 3}, 17, 17}, {{1}, 64, 3}, {{}, 8, 5}, {{9}, 66, 10}}) {
      // Weights as small as those of a network: what a layer sums then stays near one.
      const double scale = 1 / std::sqrt(static_cast<double>(in));
      std::vector<testing::InputSpec> inputs{
          {rows.insert(rows.rank(), 2 * in)},
          {.shape = {out, in}, .values = [scale](double v) { return v * scale; }}};
      if (bias) inputs.push_back({Shape{out}});
      check_op({.name = to_string(rows) + " x " + std::to_string(in) + (bias ? " + bias" : ""),
                .op =
                    [bias](std::span<const Tensor> x) {
                      return swiglu_linear(x[0], {x[1], bias ? x[2] : Tensor{}});
                    },
                .inputs = inputs,
                // of two ops in a half type; gradients of weights add it up over the rows
                .half_tolerance = 1.5e-2 * std::sqrt(static_cast<double>(rows.numel()))});
    }
  }
}

/// A result and the gradients of all inputs that take part.
template <class Function>
std::vector<Tensor> pass(std::vector<Tensor>& inputs, bool selective, Function&& function) {
  for (Tensor& input : inputs) input.set_grad({});
  Tensor y;
  {
    const SelectiveRecompute scope(selective);
    y = function(inputs[0], LinearWeights{inputs[1], inputs[2]});
  }
  backward(y, {.grad = to(to(randn(y.shape(), 99), y.dtype()), y.device())});
  std::vector<Tensor> found{y};
  for (const Tensor& input : inputs) found.push_back(input.grad().defined() ? clone(input.grad()) : Tensor{});
  return found;
}

void expect_same(const std::vector<Tensor>& found, const std::vector<Tensor>& expected,
                 const std::string& what, double tolerance = 0) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined()) << what << " " << i;
    if (!expected[i].defined()) continue;
    EXPECT_LE(max_error(found[i], expected[i]), tolerance) << what << " " << i;
  }
}

std::vector<Tensor> random_inputs(DType dtype, std::int64_t in) {
  std::vector<Tensor> inputs;
  for (const Shape& shape : {Shape{3, 3, 2 * in}, Shape{20, in}, Shape{20}})
    inputs.push_back(to(to(randn(shape, inputs.size() + 1), dtype), checked_device()));
  return inputs;
}

TEST(SwigluLinear, HasTheBitsOfItsOpsAndWhenItsProductIsMadeAgain) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t in : {33, 48}) {
      std::vector<Tensor> inputs = random_inputs(dtype, in);
      for (Tensor& input : inputs) input.set_requires_grad(true);
      const std::string what = std::string(name(dtype)) + " " + std::to_string(in);
      const std::vector<Tensor> expected = pass(inputs, false, composed);
      expect_same(pass(inputs, false, swiglu_linear), expected, what);
      expect_same(pass(inputs, true, swiglu_linear), expected, what + " selective");
      const LinearWeights down{inputs[1], inputs[2]};
      {
        const RecordedLater first_run;
        EXPECT_EQ(max_error(swiglu_linear(inputs[0], down), expected[0]), 0.0) << what << " recorded later";
      }
      const NoGrad no_grad;
      EXPECT_EQ(max_error(swiglu_linear(inputs[0], down), composed(inputs[0], down)), 0.0) << what;
    }
  }
}

// A GPU's library sums the gradient of a bias beside that of the weight, our kernel by itself: in another
// order.
TEST(SwigluLinear, PassesBackToEveryChoiceOfItsInputs) {
  constexpr double kOrderOfSums = 1e-5;
  std::vector<Tensor> inputs = random_inputs(DType::f32, 12);
  for (Tensor& input : inputs) input.set_requires_grad(true);
  const std::vector<Tensor> all = pass(inputs, false, swiglu_linear);
  for (unsigned choice = 1; choice < 8; ++choice) {
    std::vector<Tensor> expected{all[0]};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool wanted = (choice >> i & 1) != 0;
      inputs[i] = inputs[i].detach();
      inputs[i].set_requires_grad(wanted);
      expected.push_back(wanted ? all[i + 1] : Tensor{});
    }
    for (const bool selective : {false, true})
      expect_same(pass(inputs, selective, swiglu_linear), expected,
                  std::to_string(choice) + (selective ? " selective" : ""), kOrderOfSums);
  }
}

// Bytes that an op leaves behind beside its result.
template <class Op>
std::size_t kept(bool selective, Op&& op) {
  const MemoryTracker& memory = backend(kCpu).memory();
  const std::size_t before = memory.allocated();
  const SelectiveRecompute scope(selective);
  const Tensor y = op();
  return memory.allocated() - before - y.nbytes();
}

TEST(SwigluLinear, KeepsItsProductOnlyForTheGradientOfItsWeight) {
  Tensor gate_up = randn({6, 32}, 1), weight = randn({4, 16}, 2), bias = randn({4}, 3);
  constexpr std::size_t kProduct = 6 * 16 * sizeof(float);
  for (Tensor* input : {&gate_up, &weight, &bias}) input->set_requires_grad(true);
  const LinearWeights down{weight, bias};
  const auto all = [&] { return swiglu_linear(gate_up, down); };
  const auto frozen_weight = [&] { return swiglu_linear(gate_up, {weight.detach(), bias}); };
  const auto of_constants = [&] { return swiglu_linear(gate_up.detach() * 1.0, down); };
  EXPECT_EQ(kept(false, all), kProduct);
  EXPECT_EQ(kept(true, all), 0U);
  EXPECT_EQ(kept(false, frozen_weight), 0U);
  for (const bool selective : {false, true})
    EXPECT_EQ(kept(selective, of_constants), kProduct) << "less than gate and up, which nobody else keeps";
}

TEST(SwigluLinear, AddsToAGradientThatIsThere) {
  std::vector<Tensor> inputs = random_inputs(DType::f32, 16);
  for (Tensor& input : inputs) input.set_requires_grad(true);
  const auto twice = [&](auto function) {
    return [function](const Tensor& x, const LinearWeights& down) {
      const Tensor gate_up = x * 0.5;  // not a leaf: its gradient is gathered on the way
      return function(gate_up, down) + function(gate_up * 2.0, down);
    };
  };
  const std::vector<Tensor> expected = pass(inputs, false, twice(composed));
  for (const bool selective : {false, true}) {
    const std::vector<Tensor> found = pass(inputs, selective, twice(swiglu_linear));
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_LE(max_error(found[i], expected[i]), 1e-5) << i;
  }
}

TEST(SwigluLinear, TakesHalfWeightsForAnF32InputAndNoRows) {
  const Tensor gate_up = randn({4, 24}, 1), weight = randn({5, 12}, 2);
  const NoGrad no_grad;
  const LinearWeights half{to(weight, DType::bf16), {}};
  EXPECT_EQ(max_error(swiglu_linear(gate_up, half), composed(gate_up, half)), 0.0);
  EXPECT_EQ(swiglu_linear(Tensor::empty({0, 24}), {weight, {}}).shape(), Shape({0, 5}));
}

TEST(SwigluLinear, RefusesShapesThatDoNotFit) {
  const LinearWeights down{Tensor::zeros({2, 4}), Tensor::zeros({2})};
  try {
    swiglu_linear(Tensor::zeros({3, 10}), down);
    FAIL();
  } catch (const ShapeMismatch& error) {
    EXPECT_NE(std::string(error.what()).find("gate before up"), std::string::npos) << error.what();
  }
  EXPECT_THROW(swiglu_linear(Tensor::zeros({3, 4}), down), ShapeMismatch);
  EXPECT_THROW(swiglu_linear(Tensor::zeros({3, 9}), down), ShapeMismatch);
  EXPECT_THROW(swiglu_linear(Tensor::zeros({3, 8}), {down.weight, Tensor::zeros({3})}), ShapeMismatch);
  EXPECT_THROW(swiglu_linear(Tensor::zeros({3, 8}), {Tensor::zeros({4}), {}}), ShapeMismatch);
  EXPECT_THROW(swiglu_linear(Tensor{}, down), Error);
}

}  // namespace
}  // namespace ingot
