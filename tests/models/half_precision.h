#pragma once

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "ingot/autograd/grad_mode.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"

// Models in bf16 are compared with f32 on the same rounded weights: what differs is the arithmetic alone.
namespace ingot::test {

using NamedTensors = std::map<std::string, Tensor>;

/// Root mean square of a - b over that of b, of all their elements together; infinite where names or shapes
/// differ, or a NaN is there.
inline double relative_error(const NamedTensors& a, const NamedTensors& b) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const NoGrad no_grad;
  double difference = 0, size = 0;
  if (a.size() != b.size()) return kNever;
  for (const auto& [name, wanted] : b) {
    const auto found = a.find(name);
    if (found == a.end() || found->second.shape() != wanted.shape()) return kNever;
    const Tensor oracle = to(wanted, DType::f32);
    difference += sum(square(to(found->second, DType::f32) - oracle)).item();
    size += sum(square(oracle)).item();
  }
  const double relative = std::sqrt(difference / size);
  return std::isnan(relative) ? kNever : relative;
}

inline double relative_error(const Tensor& a, const Tensor& b) {
  return relative_error(NamedTensors{{"", a}}, NamedTensors{{"", b}});
}

/// The gradients that there are.
inline NamedTensors gradients_of(ModuleRef module) {
  NamedTensors gradients;
  for (const auto& [name, parameter] : named_parameters(module)) {
    if (parameter->grad().defined()) gradients[name] = parameter->grad();
  }
  return gradients;
}

/// Leaves the weights that bf16 has of them, still in f32.
inline void round_to_bf16(ModuleRef module) {
  const NoGrad no_grad;
  for (Parameter* parameter : parameters(module)) {
    parameter->replace(to(to(parameter->value, DType::bf16), DType::f32));
  }
}

/// Bounds: bf16 keeps 8 bits, 0.2 % in a rounding; a few layers forward, and as many again back.
constexpr double kBf16Outputs = 2e-2, kBf16Gradients = 4e-2;

}  // namespace ingot::test
