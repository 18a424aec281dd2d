#include <array>
#include <cmath>

#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"

// Comparisons and truth values.

namespace ingot::onnx {
namespace {

template <Tensor (*op)(const Tensor&, const Tensor&)>
std::vector<Tensor> compare(const OpCall& call) {
  return {op(call.in(0), call.in(1))};
}

template <class F>
std::vector<Tensor> truth(const OpCall& call, F f) {
  return {zip_integers(call.in(0), call.in(1), f, call.node().op.c_str())};
}
std::vector<Tensor> logical_and(const OpCall& call) {
  return truth(call, [](std::int64_t a, std::int64_t b) { return a & b; });
}
std::vector<Tensor> logical_or(const OpCall& call) {
  return truth(call, [](std::int64_t a, std::int64_t b) { return a | b; });
}
std::vector<Tensor> logical_xor(const OpCall& call) {
  return truth(call, [](std::int64_t a, std::int64_t b) { return a ^ b; });
}
std::vector<Tensor> logical_not(const OpCall& call) {
  const Tensor& x = call.in(0);
  return {equal(x, Tensor::zeros({}, x.dtype()))};
}

std::vector<Tensor> is_nan(const OpCall& call) { return {not_equal(call.in(0), call.in(0))}; }

std::vector<Tensor> is_infinite(const OpCall& call) {
  const bool negative = call.integer("detect_negative", 1) != 0,
             positive = call.integer("detect_positive", 1) != 0;
  return {to(map_values(call.in(0),
                        [=](double x) { return std::isinf(x) && (x < 0 ? negative : positive) ? 1.0 : 0.0; }),
             DType::boolean)};
}

std::vector<Tensor> choose(const OpCall& call) { return {where(call.in(0), call.in(1), call.in(2))}; }

constexpr std::array kLogicOps = {OpRow{"And", logical_and},
                                  OpRow{"Equal", compare<equal>, kEveryInput},
                                  OpRow{"Greater", compare<greater>, kEveryInput},
                                  OpRow{"GreaterOrEqual", compare<greater_equal>, kEveryInput},
                                  OpRow{"IsInf", is_infinite},
                                  OpRow{"IsNaN", is_nan, kEveryInput},
                                  OpRow{"Less", compare<less>, kEveryInput},
                                  OpRow{"LessOrEqual", compare<less_equal>, kEveryInput},
                                  OpRow{"Not", logical_not},
                                  OpRow{"Or", logical_or},
                                  OpRow{"Where", choose, kEveryInput},
                                  OpRow{"Xor", logical_xor}};

}  // namespace

std::span<const OpRow> logic_ops() { return kLogicOps; }

}  // namespace ingot::onnx
