#include <algorithm>
#include <cmath>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

// Arithmetic and functions of one element.

namespace ingot::onnx {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);

/// Before operator set 7 b was laid along the axes of a from `axis` on, where the attribute broadcast is set.
Tensor placed(const OpCall& call, const Tensor& a, Tensor b) {
  if (call.opset() >= 7 || !call.has_attribute("axis") || call.integer("broadcast", 0) == 0) return b;
  const int axis = call.axis("axis", 0, a.rank());
  while (axis + b.rank() < a.rank()) b = unsqueeze(b, b.rank());
  return b;
}

/// Floats and i64 as they are; other whole numbers through i64 (they wrap when they come back).
template <Binary op>
std::vector<Tensor> arithmetic(const OpCall& call) {
  const Tensor& a = call.in(0);
  const Tensor b = placed(call, a, call.in(1));
  if (is_floating_point(a.dtype()) || a.dtype() == DType::i64) return {op(a, b)};
  return {to(op(to(a, DType::i64), to(b, DType::i64)), a.dtype())};
}

std::vector<Tensor> divide(const OpCall& call) {
  const Tensor& a = call.in(0);
  const Tensor b = placed(call, a, call.in(1));
  if (is_floating_point(a.dtype())) return {div(a, b)};
  return {zip_integers(
      a, b,
      [&](std::int64_t x, std::int64_t y) {
        INGOT_CHECK(y != 0, Error(call.where() + ": division by zero"));
        return y == -1 ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x)) : x / y;
      },
      "Div")};
}

std::vector<Tensor> modulo(const OpCall& call) {
  const Tensor& a = call.in(0);
  const bool truncate = call.integer("fmod", 0) != 0;
  if (is_floating_point(a.dtype())) {
    return {zip_values(
        a, call.in(1), [](double x, double y) { return std::fmod(x, y); }, "Mod")};
  }
  return {zip_integers(
      a, call.in(1),
      [&](std::int64_t x, std::int64_t y) {
        INGOT_CHECK(y != 0, Error(call.where() + ": division by zero"));
        if (y == -1) return std::int64_t{0};
        const std::int64_t rest = x % y;
        return !truncate && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
      },
      "Mod")};
}

std::vector<Tensor> power(const OpCall& call) {
  const Tensor& a = call.in(0);
  const Tensor b = placed(call, a, call.in(1));
  if (b.numel() == 1 && is_floating_point(a.dtype())) {
    const Shape shape = broadcast_shapes(a.shape(), b.shape(), "Pow");
    return {broadcast_to(pow(a, as_doubles(b)[0]), shape)};
  }
  return {zip_values(
      a, b, [](double x, double y) { return std::pow(x, y); }, "Pow")};
}

std::vector<Tensor> shift(const OpCall& call) {
  const bool left = call.text("direction", "") == "LEFT";
  return {zip_integers(
      call.in(0), call.in(1),
      [&](std::int64_t x, std::int64_t y) {
        const auto bits = static_cast<std::uint64_t>(x);
        if (y < 0 || y > 63) return std::int64_t{0};
        return static_cast<std::int64_t>(left ? bits << y : bits >> y);
      },
      "BitShift")};
}

/// A function that the ops have, on floats; whole numbers through f64.
template <Tensor (*op)(const Tensor&)>
std::vector<Tensor> unary(const OpCall& call) {
  const Tensor& x = call.in(0);
  if (is_floating_point(x.dtype())) return {op(x)};
  return {to(op(to(x, DType::f64)), x.dtype())};
}

template <double (*f)(double)>
std::vector<Tensor> mapped(const OpCall& call) {
  return {map_values(call.in(0), f)};
}

// Functions of <cmath> have overloads; these have none.
double fn_tan(double x) { return std::tan(x); }
double fn_asin(double x) { return std::asin(x); }
double fn_acos(double x) { return std::acos(x); }
double fn_atan(double x) { return std::atan(x); }
double fn_sinh(double x) { return std::sinh(x); }
double fn_cosh(double x) { return std::cosh(x); }
double fn_asinh(double x) { return std::asinh(x); }
double fn_acosh(double x) { return std::acosh(x); }
double fn_atanh(double x) { return std::atanh(x); }
double fn_softsign(double x) { return x / (1 + std::abs(x)); }

std::vector<Tensor> elu_of(const OpCall& call) { return {elu(call.in(0), call.number("alpha", 1))}; }
std::vector<Tensor> celu(const OpCall& call) {
  const double alpha = call.number("alpha", 1);
  return {scale(elu(scale(call.in(0), 1 / alpha)), alpha)};
}
std::vector<Tensor> selu(const OpCall& call) {
  const double alpha = call.number("alpha", 1.67326319217681884765625F);
  const double gamma = call.number("gamma", 1.05070102214813232421875F);
  return {scale(elu(call.in(0), alpha), gamma)};
}
std::vector<Tensor> leaky_relu_of(const OpCall& call) {
  return {leaky_relu(call.in(0), call.number("alpha", 0.01F))};
}
std::vector<Tensor> thresholded_relu(const OpCall& call) {
  const double alpha = call.number("alpha", 1);
  return {map_values(call.in(0), [=](double x) { return x > alpha ? x : 0; })};
}
std::vector<Tensor> hard_sigmoid(const OpCall& call) {
  const double alpha = call.number("alpha", 0.2F), beta = call.number("beta", 0.5F);
  return {clamp(scale(call.in(0), alpha, beta), 0, 1)};
}
std::vector<Tensor> hard_swish(const OpCall& call) {
  const Tensor& x = call.in(0);
  return {mul(x, clamp(scale(x, 1.0 / 6, 0.5), 0, 1))};
}
std::vector<Tensor> shrink(const OpCall& call) {
  const double bias = call.number("bias", 0), lambda = call.number("lambd", 0.5F);
  return {map_values(call.in(0), [=](double x) {
    return x < -lambda ? x + bias : x > lambda ? x - bias : 0;
  })};
}
std::vector<Tensor> prelu(const OpCall& call) {
  const Tensor& x = call.in(0);
  Tensor slopes = call.in(1);
  if (call.opset() < 7 && slopes.numel() > 1) {  // one for each channel, on axis 1
    while (slopes.rank() < x.rank() - 1) slopes = unsqueeze(slopes, slopes.rank());
  }
  if (!is_floating_point(x.dtype())) {
    return {zip_values(
        x, slopes, [](double x, double slope) { return x > 0 ? x : slope * x; }, "PRelu")};
  }
  return {add(relu(x), mul(neg(relu(neg(x))), slopes))};
}
std::vector<Tensor> gelu(const OpCall& call) {
  const Tensor& x = call.in(0);
  return {call.text("approximate", "none") == "tanh" ? gelu_tanh(x) : gelu_erf(x)};
}

std::vector<Tensor> clip(const OpCall& call) {
  const Tensor& x = call.in(0);
  double low = -std::numeric_limits<double>::infinity(), high = -low;
  if (call.opset() < 11) {
    low = call.number("min", static_cast<float>(low));
    high = call.number("max", static_cast<float>(high));
  } else {
    if (call.has(1)) low = call.number_in(1);
    if (call.has(2)) high = call.number_in(2);
  }
  if (is_floating_point(x.dtype()) && low <= high) return {clamp(x, low, high)};
  return {map_values(x, [=](double v) { return std::min(std::max(v, low), high); })};
}

/// Any number of operands, two by two.
template <double (*f)(double, double), Binary op>
std::vector<Tensor> folded(const OpCall& call) {
  Tensor result = call.in(0);
  for (std::size_t i = 1; i < call.input_count(); ++i) {
    const Tensor& next = call.in(i);
    result =
        result.dtype() == DType::f32 ? op(result, next) : zip_values(result, next, f, call.node().op.c_str());
  }
  return {result};
}
double fn_max(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }
double fn_min(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }
double fn_add(double a, double b) { return a + b; }

std::vector<Tensor> mean_of(const OpCall& call) {
  return {scale(folded<fn_add, add>(call)[0], 1.0 / static_cast<double>(call.input_count()))};
}

std::vector<Tensor> matrix_product(const OpCall& call) {
  const Tensor &a = call.in(0), &b = call.in(1);
  if (is_floating_point(a.dtype())) return {matmul(a, b)};
  return {to(matmul(to(a, DType::f64), to(b, DType::f64)), a.dtype())};
}

std::vector<Tensor> gemm(const OpCall& call) {
  Tensor a = call.in(0, 2, 2), b = call.in(1, 2, 2);
  const DType dtype = a.dtype();
  if (!is_floating_point(dtype)) a = to(a, DType::f64), b = to(b, DType::f64);
  if (call.integer("transA", 0) != 0) a = transpose(a, 0, 1);
  if (call.integer("transB", 0) != 0) b = transpose(b, 0, 1);
  const float alpha = call.number("alpha", 1), beta = call.number("beta", 1);
  Tensor y = matmul(a, b);
  if (alpha != 1) y = scale(y, alpha);
  if (call.has(2)) y = add(y, beta == 1 ? to(call.in(2), y.dtype()) : scale(to(call.in(2), y.dtype()), beta));
  return {to(y, dtype)};
}

double determinant_of(std::vector<double> m, std::size_t n) {
  double product = 1;
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < n; ++i) {
      if (std::abs(m[i * n + k]) > std::abs(m[pivot * n + k])) pivot = i;
    }
    if (m[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      std::swap_ranges(&m[k * n], &m[k * n] + n, &m[pivot * n]);
      product = -product;
    }
    product *= m[k * n + k];
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = m[i * n + k] / m[k * n + k];
      for (std::size_t j = k; j < n; ++j) m[i * n + j] -= factor * m[k * n + j];
    }
  }
  return product;
}

/// Of each matrix in [..., n, n].
std::vector<Tensor> determinant(const OpCall& call) {
  const Tensor& x = call.in(0);
  INGOT_CHECK(x.rank() >= 2 && x.dim(-1) == x.dim(-2),
              DimensionMismatch(call.where() + ": " + to_string(x.shape()) + " are no square matrices"));
  const auto n = static_cast<std::size_t>(x.dim(-1));
  const std::vector<double> values = as_doubles(x);
  std::vector<std::int64_t> dims = x.shape().to_vector();
  dims.resize(dims.size() - 2);
  const Shape shape = to_shape(dims);
  std::vector<double> results;
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape.numel()); ++i) {
    const double* first = values.data() + i * n * n;
    results.push_back(determinant_of({first, first + n * n}, n));
  }
  return {from_doubles(results, shape, x.dtype())};
}

constexpr std::array kMathOps = {OpRow{"Abs", unary<abs>, 1},
                                 OpRow{"Acos", mapped<fn_acos>},
                                 OpRow{"Acosh", mapped<fn_acosh>},
                                 OpRow{"Add", arithmetic<add>, kEveryInput},
                                 OpRow{"Asin", mapped<fn_asin>},
                                 OpRow{"Asinh", mapped<fn_asinh>},
                                 OpRow{"Atan", mapped<fn_atan>},
                                 OpRow{"Atanh", mapped<fn_atanh>},
                                 OpRow{"BitShift", shift},
                                 OpRow{"Ceil", unary<ceil>, 1},
                                 OpRow{"Celu", celu, 1},
                                 OpRow{"Clip", clip, 1},
                                 OpRow{"Cos", unary<cos>, 1},
                                 OpRow{"Cosh", mapped<fn_cosh>},
                                 OpRow{"Det", determinant},
                                 OpRow{"Div", divide, kEveryInput},
                                 OpRow{"Elu", elu_of, 1},
                                 OpRow{"Erf", unary<erf>, 1},
                                 OpRow{"Exp", unary<exp>, 1},
                                 OpRow{"Floor", unary<floor>, 1},
                                 OpRow{"Gelu", gelu, 1},
                                 OpRow{"Gemm", gemm, kEveryInput},
                                 OpRow{"HardSigmoid", hard_sigmoid, 1},
                                 OpRow{"HardSwish", hard_swish, 1},
                                 OpRow{"LeakyRelu", leaky_relu_of, 1},
                                 OpRow{"Log", unary<log>, 1},
                                 OpRow{"MatMul", matrix_product, kEveryInput},
                                 OpRow{"Max", folded<fn_max, maximum>, kEveryInput},
                                 OpRow{"Mean", mean_of, kEveryInput},
                                 OpRow{"Min", folded<fn_min, minimum>, kEveryInput},
                                 OpRow{"Mish", unary<mish>, 1},
                                 OpRow{"Mod", modulo},
                                 OpRow{"Mul", arithmetic<mul>, kEveryInput},
                                 OpRow{"Neg", unary<neg>, 1},
                                 OpRow{"PRelu", prelu, kEveryInput},
                                 OpRow{"Pow", power, 1},
                                 OpRow{"Reciprocal", unary<reciprocal>, 1},
                                 OpRow{"Relu", unary<relu>, 1},
                                 OpRow{"Round", unary<round>, 1},
                                 OpRow{"Selu", selu, 1},
                                 OpRow{"Shrink", shrink},
                                 OpRow{"Sigmoid", unary<sigmoid>, 1},
                                 OpRow{"Sign", unary<sign>, 1},
                                 OpRow{"Sin", unary<sin>, 1},
                                 OpRow{"Sinh", mapped<fn_sinh>},
                                 OpRow{"Softplus", unary<softplus>, 1},
                                 OpRow{"Softsign", mapped<fn_softsign>},
                                 OpRow{"Sqrt", unary<sqrt>, 1},
                                 OpRow{"Sub", arithmetic<sub>, kEveryInput},
                                 OpRow{"Sum", folded<fn_add, add>, kEveryInput},
                                 OpRow{"Tan", mapped<fn_tan>},
                                 OpRow{"Tanh", unary<tanh>, 1},
                                 OpRow{"ThresholdedRelu", thresholded_relu}};

}  // namespace

std::span<const OpRow> math_ops() { return kMathOps; }

}  // namespace ingot::onnx
