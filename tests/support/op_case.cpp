#include "tests/support/op_case.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/autograd/gradcheck.h"
#include "ingot/autograd/node.h"
#include "ingot/base/rng.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/kernel.h"
#include "ingot/ops/cast.h"

namespace ingot::testing {
namespace {

using Inputs = std::vector<Tensor>;

Device device_of_checks = kCpu;

// Freed blocks come back for the next tensors of their size: fill some of each with NaN, so that an element
// that a kernel forgets to write shows.
void poison_memory(const Inputs& inputs, const Tensor& output) {
  std::vector<Tensor> blocks;
  const Device device = output.device();
  const auto take = [&blocks, device](std::size_t bytes) {
    for (int i = 0; i < 3; ++i) {
      blocks.push_back(Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8, device));
      backend(device).fill_bytes(blocks.back().view().data, 0xff, bytes, current_stream(device));
    }
  };
  for (const Tensor& input : inputs) take(input.nbytes());
  take(output.nbytes());
}

Inputs make_inputs(const OpCase& op_case) {
  Inputs inputs;
  std::uint64_t seed = 11;
  for (const InputSpec& spec : op_case.inputs) {
    Rng rng(RngKey{seed++, 0});
    if (spec.integers_below > 0) {
      std::vector<std::int64_t> values(static_cast<std::size_t>(spec.shape.numel()));
      for (auto& v : values)
        v = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(spec.integers_below)));
      inputs.push_back(Tensor::from(values, spec.shape));
      continue;
    }
    std::vector<double> values(static_cast<std::size_t>(spec.shape.numel()));
    for (double& v : values) v = spec.values ? spec.values(rng.normal()) : rng.normal();
    inputs.push_back(Tensor::from(values, spec.shape));
    if (spec.differentiable) inputs.back().set_requires_grad(true);
  }
  return inputs;
}

Inputs moved(const Inputs& inputs, Device device) {
  Inputs result;
  const NoGrad no_grad;
  for (const Tensor& input : inputs) {
    result.push_back(to(input, device).detach());
    if (input.requires_grad()) result.back().set_requires_grad(true);
  }
  return result;
}

Inputs converted(const Inputs& inputs, DType dtype) {
  Inputs result;
  const NoGrad no_grad;
  for (const Tensor& input : inputs) {
    result.push_back(is_floating_point(input.dtype()) ? to(input, dtype).detach() : input);
    if (input.requires_grad()) result.back().set_requires_grad(true);
  }
  return result;
}

struct Outcome {
  Tensor output;
  Inputs grads;
};

Outcome run(const OpCase& op_case, const Inputs& inputs, int passes = 1) {
  for (const Tensor& input : inputs) {
    if (input.requires_grad()) input.set_grad({});
  }
  Outcome outcome;
  for (int pass = 0; pass < passes; ++pass) {
    outcome.output = op_case.op(inputs);
    if (!outcome.output.requires_grad()) return outcome;
    poison_memory(inputs, outcome.output);
    const NoGrad no_grad;
    const Tensor weights = to(randn(outcome.output.shape(), 99, DType::f64), outcome.output.dtype());
    backward(outcome.output, {.grad = to(weights, outcome.output.device())});
  }
  for (const Tensor& input : inputs) outcome.grads.push_back(input.requires_grad() ? input.grad() : Tensor{});
  return outcome;
}

void expect_near(const Outcome& actual, const Outcome& expected, double tolerance, double grad_scale,
                 const std::string& what) {
  EXPECT_LE(max_error(actual.output, expected.output), tolerance) << what << ": output";
  for (std::size_t i = 0; i < expected.grads.size(); ++i) {
    if (!expected.grads[i].defined()) continue;
    ASSERT_TRUE(actual.grads[i].defined()) << what << ": gradient " << i;
    const NoGrad no_grad;
    Tensor wanted = clone(expected.grads[i]);
    for (std::int64_t k = 0; k < wanted.numel(); ++k) wanted.data<double>()[k] *= grad_scale;
    EXPECT_LE(max_error(actual.grads[i], wanted), tolerance * std::max(1.0, grad_scale))
        << what << ": gradient " << i;
  }
}

// y + y through two consumers of one interior tensor: the second gradient must add to the first.
void check_interior_accumulation(const OpCase& op_case, const Inputs& f64, const Outcome& expected) {
  Inputs interior;
  Inputs leaves = moved(converted(f64, DType::f32), device_of_checks);
  for (Tensor& leaf : leaves) interior.push_back(leaf.requires_grad() ? clone(leaf) : leaf);
  const Tensor first = op_case.op(interior), second = op_case.op(interior);
  if (!first.requires_grad()) return;
  const Tensor weights = to(to(randn(first.shape(), 99, DType::f64), first.dtype()), first.device());
  const std::vector<Tensor> roots{first, second}, grads{weights, weights};
  backward(roots, grads);
  Outcome actual{first, {}};
  for (const Tensor& leaf : leaves) actual.grads.push_back(leaf.requires_grad() ? leaf.grad() : Tensor{});
  expect_near(actual, expected, op_case.f32_tolerance, 2.0, "two consumers");
}

void check_on_device(const OpCase& op_case, const Inputs& f64, const Outcome& expected) {
  const Inputs f32 = moved(converted(f64, DType::f32), device_of_checks);
  expect_near(run(op_case, f32), expected, op_case.f32_tolerance, 1.0, "f32");
  expect_near(run(op_case, f32, 2), expected, op_case.f32_tolerance, 2.0, "f32, second pass");
  check_interior_accumulation(op_case, f64, expected);
  for (const DType half : {DType::bf16, DType::f16}) {
    if (op_case.half_tolerance == 0) break;
    const Inputs rounded = converted(f64, half);
    Outcome oracle;
    {
      const kernels::ForceKind reference(kernels::ImplKind::reference);
      oracle = run(op_case, converted(rounded, DType::f64));
    }
    expect_near(run(op_case, moved(rounded, device_of_checks)), oracle, op_case.half_tolerance, 1.0,
                std::string(name(half)));
  }
}

}  // namespace

void check_on(Device device) { device_of_checks = device; }

Device checked_device() { return device_of_checks; }

Tensor beside(const Tensor& constant, std::span<const Tensor> inputs) {
  return constant.defined() ? to(constant, inputs[0].device()) : constant;
}

Tensor randn(const Shape& shape, std::uint64_t seed, DType dtype) {
  Rng rng(RngKey{seed, 1});
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (double& v : values) v = rng.normal();
  const NoGrad no_grad;
  return to(Tensor::from(values, shape), dtype);
}

Tensor filled(const Shape& shape, float value) {
  return Tensor::from(std::vector<float>(static_cast<std::size_t>(shape.numel()), value), shape);
}

double max_error(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || !(a.shape() == b.shape())) return INFINITY;
  const NoGrad no_grad;
  const std::vector<double> x = contiguous(to(to(a, kCpu), DType::f64)).to_vector<double>();
  const std::vector<double> y = contiguous(to(to(b, kCpu), DType::f64)).to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i]) continue;  // equal infinities too
    const double error = std::abs(x[i] - y[i]) / std::max(1.0, std::abs(y[i]));
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

void check_op(const OpCase& op_case) {
  SCOPED_TRACE(op_case.name);
  const Inputs f64 = make_inputs(op_case);
  Outcome expected;
  {
    const kernels::ForceKind reference(kernels::ImplKind::reference);
    expected = run(op_case, f64);
    if (expected.output.requires_grad() && device_of_checks.is_cpu()) {
      EXPECT_EQ(gradcheck(op_case.op, f64, {.tolerance = op_case.gradcheck_tolerance}), "");
    }
  }
  if (!device_of_checks.is_cpu()) {
    check_on_device(op_case, f64, expected);
    return;
  }
  const Inputs f32 = converted(f64, DType::f32);
  expect_near(run(op_case, f32), expected, op_case.f32_tolerance, 1.0, "f32");
  expect_near(run(op_case, f32, 2), expected, op_case.f32_tolerance, 2.0, "f32, second pass");
  check_interior_accumulation(op_case, f64, expected);
  {
    const kernels::ForceKind reference(kernels::ImplKind::reference);
    expect_near(run(op_case, f32), expected, op_case.f32_tolerance, 1.0, "f32 reference");
  }
  for (const DType half : {DType::bf16, DType::f16}) {
    if (op_case.half_tolerance == 0) break;
    const Inputs rounded = converted(f64, half);
    Outcome oracle;
    {
      const kernels::ForceKind reference(kernels::ImplKind::reference);
      oracle = run(op_case, converted(rounded, DType::f64));
    }
    expect_near(run(op_case, rounded), oracle, op_case.half_tolerance, 1.0, std::string(name(half)));
  }
}

}  // namespace ingot::testing
