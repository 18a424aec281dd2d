#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/kernels/pointwise.h"
#include "ingot/ops/elementwise.h"

namespace ingot {

/// A formula's operations, noted down in their order.
class PointwiseTrace {
 public:
  explicit PointwiseTrace(std::size_t inputs) : values_(static_cast<int>(inputs)) {}
  /// The number of the result.
  int add(const kernels::PointwiseStep& step) {
    steps_.push_back(step);
    return values_++;
  }
  const std::vector<kernels::PointwiseStep>& steps() const { return steps_; }
  bool ends_with(int value) const { return !steps_.empty() && value == values_ - 1; }

 private:
  int values_;
  std::vector<kernels::PointwiseStep> steps_;
};

/// What a formula is given in a tensor's position to note it down: the same operators and functions.
struct Symbol {
  PointwiseTrace* trace;
  int number;

  Symbol unary(kernels::UnaryOp op, double alpha = 1, double beta = 0) const;
  Symbol binary(kernels::BinaryOp op, Symbol b) const;
};

// clang-format off
inline Symbol operator+(Symbol a, Symbol b) { return a.binary(kernels::BinaryOp::add, b); }
inline Symbol operator-(Symbol a, Symbol b) { return a.binary(kernels::BinaryOp::sub, b); }
inline Symbol operator*(Symbol a, Symbol b) { return a.binary(kernels::BinaryOp::mul, b); }
inline Symbol operator/(Symbol a, Symbol b) { return a.binary(kernels::BinaryOp::div, b); }
inline Symbol maximum(Symbol a, Symbol b) { return a.binary(kernels::BinaryOp::maximum, b); }
inline Symbol minimum(Symbol a, Symbol b) { return a.binary(kernels::BinaryOp::minimum, b); }
inline Symbol scale(Symbol x, double alpha, double beta = 0) { return x.unary(kernels::UnaryOp::scale, alpha, beta); }
inline Symbol operator-(Symbol x) { return scale(x, -1); }
inline Symbol operator+(Symbol x, double value) { return scale(x, 1, value); }
inline Symbol operator+(double value, Symbol x) { return scale(x, 1, value); }
inline Symbol operator-(Symbol x, double value) { return scale(x, 1, -value); }
inline Symbol operator-(double value, Symbol x) { return scale(x, -1, value); }
inline Symbol operator*(Symbol x, double value) { return scale(x, value); }
inline Symbol operator*(double value, Symbol x) { return scale(x, value); }
inline Symbol operator/(Symbol x, double value) { return scale(x, 1 / value); }
inline Symbol abs(Symbol x) { return x.unary(kernels::UnaryOp::abs); }
inline Symbol exp(Symbol x) { return x.unary(kernels::UnaryOp::exp); }
inline Symbol log(Symbol x) { return x.unary(kernels::UnaryOp::log); }
inline Symbol sqrt(Symbol x) { return x.unary(kernels::UnaryOp::sqrt); }
inline Symbol rsqrt(Symbol x) { return x.unary(kernels::UnaryOp::rsqrt); }
inline Symbol square(Symbol x) { return x.unary(kernels::UnaryOp::square); }
inline Symbol reciprocal(Symbol x) { return x.unary(kernels::UnaryOp::reciprocal); }
inline Symbol sin(Symbol x) { return x.unary(kernels::UnaryOp::sin); }
inline Symbol cos(Symbol x) { return x.unary(kernels::UnaryOp::cos); }
inline Symbol sigmoid(Symbol x) { return x.unary(kernels::UnaryOp::sigmoid); }
inline Symbol tanh(Symbol x) { return x.unary(kernels::UnaryOp::tanh); }
inline Symbol relu(Symbol x) { return x.unary(kernels::UnaryOp::relu); }
inline Symbol silu(Symbol x) { return x.unary(kernels::UnaryOp::silu); }
inline Symbol gelu_erf(Symbol x) { return x.unary(kernels::UnaryOp::gelu_erf); }
inline Symbol gelu_tanh(Symbol x) { return x.unary(kernels::UnaryOp::gelu_tanh); }
inline Symbol mish(Symbol x) { return x.unary(kernels::UnaryOp::mish); }
inline Symbol softplus(Symbol x) { return x.unary(kernels::UnaryOp::softplus); }
inline Symbol pow(Symbol x, double exponent) { return exponent == 2 ? square(x) : x.unary(kernels::UnaryOp::pow, exponent); }
inline Symbol clamp(Symbol x, double low, double high) { return x.unary(kernels::UnaryOp::clamp, low, high); }
inline Symbol erf(Symbol x) { return x.unary(kernels::UnaryOp::erf); }
inline Symbol leaky_relu(Symbol x, double slope) { return x.unary(kernels::UnaryOp::leaky_relu, slope); }
inline Symbol elu(Symbol x, double alpha) { return x.unary(kernels::UnaryOp::elu, alpha); }
inline Symbol floor(Symbol x) { return x.unary(kernels::UnaryOp::floor); }
inline Symbol ceil(Symbol x) { return x.unary(kernels::UnaryOp::ceil); }
inline Symbol round(Symbol x) { return x.unary(kernels::UnaryOp::round); }
inline Symbol sign(Symbol x) { return x.unary(kernels::UnaryOp::sign); }
// clang-format on

/// Whether formulas become kernels, and for how many elements at least, on this thread while one is alive.
/// Else INGOT_FUSION (on) decides, and kFusedElements.
class FusionScope {
 public:
  explicit FusionScope(bool on, std::int64_t elements = 1);
  ~FusionScope();
  FusionScope(const FusionScope&) = delete;
  FusionScope& operator=(const FusionScope&) = delete;

 private:
  std::int64_t previous_;
};
/// Below, launching costs more than what a pass over memory does.
inline constexpr std::int64_t kFusedElements = 1 << 16;

/// Whether a formula over these becomes a kernel: on a device that compiles kernels at run time, for
/// contiguous tensors of one shape and one dtype (f32, bf16, f16), and large ones.
bool fuses(std::span<const Tensor* const> inputs);

/// What `steps` compute from the inputs, by one kernel, and each gradient by one.
Tensor fused_pointwise(std::span<const Tensor* const> inputs, std::vector<kernels::PointwiseStep> steps);

/// formula(tensors...), a chain of element-wise operations: as one kernel where fuses() holds, else operation
/// by operation; results have the same bits either way. The formula takes whatever it is given:
///
///     pointwise([](const auto& gate, const auto& up) { return gelu_tanh(gate) * up; }, gate, up)
template <class F, class... Tensors>
Tensor pointwise(const F& formula, const Tensors&... tensors) {
  const std::array<const Tensor*, sizeof...(tensors)> inputs{&tensors...};
  if (!fuses(inputs)) return formula(tensors...);
  PointwiseTrace trace(inputs.size());
  const Symbol result = [&]<std::size_t... i>(std::index_sequence<i...>) {
    return formula(Symbol{&trace, static_cast<int>(i)}...);
  }
  (std::index_sequence_for<Tensors...>());
  if (!trace.ends_with(result.number)) return formula(tensors...);  // what comes behind it is for nothing
  return fused_pointwise(inputs, trace.steps());
}

}  // namespace ingot
