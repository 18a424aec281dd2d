#include <array>
#include <cmath>

#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"

// Comparisons and truth values.

namespace ingot::onnx {
namespace {

/// Unsigned numbers of 64 bits in the order that their carrier has once their highest bit is flipped.
Tensor ordered(const Tensor& x) {
  std::vector<std::int64_t> values = as_integers(x);
  for (std::int64_t& v : values) v ^= INT64_MIN;
  return Tensor::from(values, x.shape());
}

template <Tensor (*op)(const Tensor&, const Tensor&)>
Values compare(const OpCall& call) {
  const Tensor &a = call.in(0), &b = call.in(1);
  if (call.is_of(0, ElementType::u64)) return {op(ordered(a), ordered(b))};
  return {op(a, b)};
}

template <class F>
Values truth(const OpCall& call, F f) {
  return {zip_integers(call.in(0), call.in(1), f, call.node().op.c_str())};
}
Values logical_and(const OpCall& call) {
  return truth(call, [](std::int64_t a, std::int64_t b) { return a & b; });
}
Values logical_or(const OpCall& call) {
  return truth(call, [](std::int64_t a, std::int64_t b) { return a | b; });
}
Values logical_xor(const OpCall& call) {
  return truth(call, [](std::int64_t a, std::int64_t b) { return a ^ b; });
}
Values logical_not(const OpCall& call) {
  const Tensor& x = call.in(0);
  return {equal(x, Tensor::zeros({}, x.dtype()))};
}

Values is_nan(const OpCall& call) { return {not_equal(call.in(0), call.in(0))}; }

Values is_infinite(const OpCall& call) {
  const bool negative = call.integer("detect_negative", 1) != 0,
             positive = call.integer("detect_positive", 1) != 0;
  return {to(map_values(call.in(0),
                        [=](double x) { return std::isinf(x) && (x < 0 ? negative : positive) ? 1.0 : 0.0; }),
             DType::boolean)};
}

Values choose(const OpCall& call) { return {where(call.in(0), call.in(1), call.in(2))}; }

constexpr std::array kLogicOps = {OpRow{"And", logical_and},
                                  OpRow{"Equal", compare<equal>, kEveryInput, kOwnTypes},
                                  OpRow{"Greater", compare<greater>, kEveryInput, kOwnTypes},
                                  OpRow{"GreaterOrEqual", compare<greater_equal>, kEveryInput, kOwnTypes},
                                  OpRow{"IsInf", is_infinite},
                                  OpRow{"IsNaN", is_nan, kEveryInput},
                                  OpRow{"Less", compare<less>, kEveryInput, kOwnTypes},
                                  OpRow{"LessOrEqual", compare<less_equal>, kEveryInput, kOwnTypes},
                                  OpRow{"Not", logical_not},
                                  OpRow{"Or", logical_or},
                                  OpRow{"Where", choose, kEveryInput, 1},
                                  OpRow{"Xor", logical_xor}};

}  // namespace

std::span<const OpRow> logic_ops() { return kLogicOps; }

}  // namespace ingot::onnx
