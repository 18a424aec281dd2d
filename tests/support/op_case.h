#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot::testing {

/// One input of an op case: random values of `shape`, drawn normal and then mapped by `values` where a
/// function needs a domain (positive numbers, distinct numbers). Index inputs set `integers_below`.
struct InputSpec {
  Shape shape;
  bool differentiable = true;
  std::int64_t integers_below = 0;  // > 0: i64 indices drawn uniformly from [0, integers_below)
  std::function<double(double)> values;
};

/// One row of an op's case table.
struct OpCase {
  std::string name;
  std::function<Tensor(std::span<const Tensor>)> op;
  std::vector<InputSpec> inputs;
  double f32_tolerance = 2e-5;   // |difference| / max(1, |reference|), against f64
  double half_tolerance = 2e-2;  // for bf16; 0 skips fp16 and bf16 (an op without them)
  double gradcheck_tolerance = 1e-6;
};

/// Everything an op must hold, for one case: gradients equal finite differences (f64, reference kernels); f32
/// with every kind of implementation present, forward and backward, equals f64; a second backward pass
/// accumulates; a gradient that meets another on the way adds to it; bf16 and f16 outputs are near f64
/// computed from the same rounded inputs; outputs and gradients hold no uninitialized memory (buffers are
/// poisoned with NaN first).
///
/// After check_on(device): that device's f32, bf16 and f16, forward and backward, against the CPU's f64
/// reference, both ways to accumulate too.
void check_op(const OpCase& op_case);

/// From now on check_op checks this device.
void check_on(Device device);
/// That device; the CPU unless another one was named.
Device checked_device();

/// A constant of the op, on the device of its inputs; an undefined one stays so.
Tensor beside(const Tensor& constant, std::span<const Tensor> inputs);

/// Normal random values as a CPU tensor of `dtype`.
Tensor randn(const Shape& shape, std::uint64_t seed, DType dtype = DType::f32);

/// A CPU tensor that holds `value` everywhere.
Tensor filled(const Shape& shape, float value);

/// Largest |a - b| / max(1, |b|), in f64; infinite when shapes differ or a NaN is there.
double max_error(const Tensor& a, const Tensor& b);

}  // namespace ingot::testing
