#include <algorithm>
#include <cmath>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/onnx/whole.h"
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
Values arithmetic(const OpCall& call) {
  const Tensor& a = call.in(0);
  const Tensor b = placed(call, a, call.in(1));
  if (call.is_of(0, ElementType::plain) && (is_floating_point(a.dtype()) || a.dtype() == DType::i64)) {
    return {op(a, b)};
  }
  const Tensor y = op(to(a, DType::i64), to(b, DType::i64));
  return {call.is_of(0, ElementType::plain) ? to(y, a.dtype())
                                            : to(wrapped_to(y, call.value_in(0).type), a.dtype())};
}

bool is_unsigned_64(const OpCall& call) { return call.is_of(0, ElementType::u64); }

Values divide(const OpCall& call) {
  const Tensor& a = call.in(0);
  const Tensor b = placed(call, a, call.in(1));
  if (is_floating_point(a.dtype())) return {div(a, b)};
  return {zip_integers(
      a, b,
      [&](std::int64_t x, std::int64_t y) {
        INGOT_CHECK(y != 0, Error(call.where() + ": division by zero"));
        if (is_unsigned_64(call))
          return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) / static_cast<std::uint64_t>(y));
        return y == -1 ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x)) : x / y;
      },
      "Div")};
}

Values modulo(const OpCall& call) {
  const Tensor& a = call.in(0);
  const bool truncate = call.integer("fmod", 0) != 0;
  if (is_floating_point(a.dtype())) {
    return {zip_values(
        a, call.in(1),
        [&](double x, double y) {
          const double rest = std::fmod(x, y);
          return !truncate && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
        },
        "Mod")};
  }
  return {zip_integers(
      a, call.in(1),
      [&](std::int64_t x, std::int64_t y) {
        INGOT_CHECK(y != 0, Error(call.where() + ": division by zero"));
        if (is_unsigned_64(call))
          return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) % static_cast<std::uint64_t>(y));
        if (y == -1) return std::int64_t{0};
        const std::int64_t rest = x % y;
        return !truncate && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
      },
      "Mod")};
}

/// x^n of whole numbers, which wraps as their products do.
std::int64_t whole_power(std::int64_t x, std::int64_t n) {
  if (n < 0) return x == 1 ? 1 : x == -1 ? (n % 2 == 0 ? 1 : -1) : 0;
  std::uint64_t result = 1, base = static_cast<std::uint64_t>(x);
  for (; n > 0; n /= 2, base *= base) {
    if (n % 2 != 0) result *= base;
  }
  return static_cast<std::int64_t>(result);
}

Values power(const OpCall& call) {
  const Tensor& a = call.in(0);
  const Tensor b = placed(call, a, call.in(1));
  if (b.numel() == 1 && is_floating_point(a.dtype())) {
    const Shape shape = broadcast_shapes(a.shape(), b.shape(), "Pow");
    return {broadcast_to(pow(a, as_doubles(b)[0]), shape)};
  }
  if (is_integer(a.dtype()) && is_integer(b.dtype())) {
    const Tensor y = zip_integers(
        to(a, DType::i64), b, [](std::int64_t x, std::int64_t y) { return whole_power(x, y); }, "Pow");
    const ElementType type = call.value_in(0).type;
    return {to(type == ElementType::plain ? y : wrapped_to(y, type), a.dtype())};
  }
  return {zip_values(
      a, b, [](double x, double y) { return std::pow(x, y); }, "Pow")};
}

/// A function that the ops have, on floats; whole numbers through f64.
template <Tensor (*op)(const Tensor&)>
Values unary(const OpCall& call) {
  const Tensor& x = call.in(0);
  if (is_floating_point(x.dtype())) return {op(x)};
  return {to(op(to(x, DType::f64)), x.dtype())};
}

/// A function of whole numbers that has whole values: exact, however large they are.
template <std::int64_t (*whole)(std::int64_t), Tensor (*op)(const Tensor&)>
Values exact(const OpCall& call) {
  const Tensor& x = call.in(0);
  if (!is_integer(x.dtype())) return unary<op>(call);
  std::vector<std::int64_t> values = as_integers(x);
  for (std::int64_t& v : values) v = whole(v);
  return {from_integers(values, x.shape(), x.dtype())};
}
std::int64_t whole_neg(std::int64_t x) { return static_cast<std::int64_t>(-static_cast<std::uint64_t>(x)); }
std::int64_t whole_abs(std::int64_t x) { return x < 0 ? whole_neg(x) : x; }
std::int64_t whole_sign(std::int64_t x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
std::int64_t whole_relu(std::int64_t x) { return x > 0 ? x : 0; }

Values absolute(const OpCall& call) {
  return takes_unsigned(call) ? Values{call.in(0)} : exact<whole_abs, abs>(call);
}
std::int64_t is_more_than_zero(std::int64_t x) { return x != 0 ? 1 : 0; }
Values sign_of(const OpCall& call) {
  return takes_unsigned(call) ? exact<is_more_than_zero, sign>(call) : exact<whole_sign, sign>(call);
}

template <double (*f)(double)>
Values mapped(const OpCall& call) {
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

Values elu_of(const OpCall& call) { return {elu(call.in(0), call.number("alpha", 1))}; }
Values celu(const OpCall& call) {
  const double alpha = call.number("alpha", 1);
  return {scale(elu(scale(call.in(0), 1 / alpha)), alpha)};
}
Values selu(const OpCall& call) {
  const double alpha = call.number("alpha", 1.67326319217681884765625F);
  const double gamma = call.number("gamma", 1.05070102214813232421875F);
  return {scale(elu(call.in(0), alpha), gamma)};
}
Values leaky_relu_of(const OpCall& call) { return {leaky_relu(call.in(0), call.number("alpha", 0.01F))}; }
Values thresholded_relu(const OpCall& call) {
  const double alpha = call.number("alpha", 1);
  return {map_values(call.in(0), [=](double x) { return x > alpha ? x : 0; })};
}
Values hard_sigmoid(const OpCall& call) {
  const double alpha = call.number("alpha", 0.2F), beta = call.number("beta", 0.5F);
  return {clamp(scale(call.in(0), alpha, beta), 0, 1)};
}
Values hard_swish(const OpCall& call) {
  const Tensor& x = call.in(0);
  return {mul(x, clamp(scale(x, 1.0 / 6, 0.5), 0, 1))};
}
Values shrink(const OpCall& call) {
  const double bias = call.number("bias", 0), lambda = call.number("lambd", 0.5F);
  if (is_integer(call.in(0).dtype()) && bias == 0) {  // exact, however large they are
    std::vector<std::int64_t> values = as_integers(call.in(0));
    for (std::int64_t& v : values) v = std::abs(static_cast<double>(v)) > lambda ? v : 0;
    return {from_integers(values, call.in(0).shape(), call.in(0).dtype())};
  }
  return {map_values(call.in(0), [=](double x) {
    return x < -lambda ? x + bias : x > lambda ? x - bias : 0;
  })};
}
std::int64_t wrapped_product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
Values prelu(const OpCall& call) {
  const Tensor& x = call.in(0);
  Tensor slopes = call.in(1);
  if (call.opset() < 7 && slopes.numel() > 1) {  // one for each channel, on axis 1
    while (slopes.rank() < x.rank() - 1) slopes = unsqueeze(slopes, slopes.rank());
  }
  if (!is_floating_point(x.dtype())) {
    return {zip_integers(
        x, slopes, [](std::int64_t x, std::int64_t slope) { return x > 0 ? x : wrapped_product(slope, x); },
        "PRelu")};
  }
  return {add(relu(x), mul(neg(relu(neg(x))), slopes))};
}
Values gelu(const OpCall& call) {
  const Tensor& x = call.in(0);
  return {call.text("approximate", "none") == "tanh" ? gelu_tanh(x) : gelu_erf(x)};
}

/// Any number of operands, two by two. `whole`: of whole numbers, exact.
template <double (*f)(double, double), std::int64_t (*whole)(const OpCall&, std::int64_t, std::int64_t),
          Binary op>
Tensor fold_inputs(const OpCall& call) {
  const char* where = call.node().op.c_str();
  Tensor result = call.in(0);
  for (std::size_t i = 1; i < call.input_count(); ++i) {
    const Tensor& next = call.in(i);
    if (is_integer(result.dtype())) {
      result = zip_integers(
          result, next, [&](std::int64_t a, std::int64_t b) { return whole(call, a, b); }, where);
    } else {
      result = result.dtype() == DType::f32 ? op(result, next) : zip_values(result, next, f, where);
    }
  }
  return result;
}
template <double (*f)(double, double), std::int64_t (*whole)(const OpCall&, std::int64_t, std::int64_t),
          Binary op>
Values folded(const OpCall& call) {
  return {fold_inputs<f, whole, op>(call)};
}

bool is_less(const OpCall& call, std::int64_t a, std::int64_t b) {
  return is_unsigned_64(call) ? static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b) : a < b;
}
std::int64_t whole_max(const OpCall& call, std::int64_t a, std::int64_t b) {
  return is_less(call, a, b) ? b : a;
}
std::int64_t whole_min(const OpCall& call, std::int64_t a, std::int64_t b) {
  return is_less(call, a, b) ? a : b;
}
std::int64_t whole_add(const OpCall& /*call*/, std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
/// Of whole numbers, exactly.
Tensor clip_whole(const OpCall& call, const Tensor& x) {
  std::vector<std::int64_t> values = as_integers(x);
  if (call.has(1)) {
    const std::int64_t low = call.integer_in(1);
    for (std::int64_t& v : values) v = whole_max(call, v, low);
  }
  if (call.has(2)) {
    const std::int64_t high = call.integer_in(2);
    for (std::int64_t& v : values) v = whole_min(call, v, high);
  }
  return from_integers(values, x.shape(), x.dtype());
}

Values swish(const OpCall& call) {
  const Tensor& x = call.in(0);
  const float alpha = call.number("alpha", 1);
  return {alpha == 1 ? silu(x) : mul(x, sigmoid(scale(x, alpha)))};
}
Values swiglu(const OpCall& call) {
  const Tensor& gate = call.in(0);
  INGOT_CHECK(gate.shape() == call.in(1).shape(),
              ShapeMismatch(call.where(), gate.shape().to_vector(), call.in(1).shape().to_vector()));
  return {mul(swish(call)[0].tensor, call.in(1))};
}

Values clip(const OpCall& call) {
  const Tensor& x = call.in(0);
  if (is_integer(x.dtype()) && call.opset() >= 11) return {clip_whole(call, x)};
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

double fn_max(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }
double fn_min(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }
double fn_add(double a, double b) { return a + b; }

Values mean_of(const OpCall& call) {
  return {scale(fold_inputs<fn_add, whole_add, add>(call), 1.0 / static_cast<double>(call.input_count()))};
}

Values matrix_product(const OpCall& call) {
  const Tensor &a = call.in(0), &b = call.in(1);
  if (takes_unsigned(call)) return {wrapped_to(matmul_whole(a, b), call.value_in(0).type)};
  if (is_floating_point(a.dtype())) return {matmul(a, b)};
  return {matmul_whole(a, b)};
}

Values gemm(const OpCall& call) {
  Tensor a = call.in(0, 2, 2), b = call.in(1, 2, 2);
  const DType dtype = a.dtype();
  if (call.integer("transA", 0) != 0) a = transpose(a, 0, 1);
  if (call.integer("transB", 0) != 0) b = transpose(b, 0, 1);
  const float alpha = call.number("alpha", 1), beta = call.number("beta", 1);
  if (!is_floating_point(dtype) && (alpha != 1 || beta != 1)) a = to(a, DType::f64), b = to(b, DType::f64);
  Tensor y = is_floating_point(a.dtype()) ? matmul(a, b) : to(matmul_whole(a, b), DType::i64);
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
Values determinant(const OpCall& call) {
  const Tensor& x = call.in(0);
  INGOT_CHECK(x.rank() >= 2 && x.dim(-1) == x.dim(-2),
              DimensionMismatch(call.where() + ": " + to_string(x.shape()) + " are not square matrices"));
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

constexpr std::array kMathOps = {OpRow{"Abs", absolute, 1, 0},
                                 OpRow{"Acos", mapped<fn_acos>},
                                 OpRow{"Acosh", mapped<fn_acosh>},
                                 OpRow{"Add", arithmetic<add>, kEveryInput, 0},
                                 OpRow{"Asin", mapped<fn_asin>},
                                 OpRow{"Asinh", mapped<fn_asinh>},
                                 OpRow{"Atan", mapped<fn_atan>},
                                 OpRow{"Atanh", mapped<fn_atanh>},
                                 OpRow{"Ceil", unary<ceil>, 1},
                                 OpRow{"Celu", celu, 1},
                                 OpRow{"Clip", clip, 1, 0},
                                 OpRow{"Cos", unary<cos>, 1},
                                 OpRow{"Cosh", mapped<fn_cosh>},
                                 OpRow{"Det", determinant},
                                 OpRow{"Div", divide, kEveryInput, 0},
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
                                 OpRow{"MatMul", matrix_product, kEveryInput, 0},
                                 OpRow{"Max", folded<fn_max, whole_max, maximum>, kEveryInput, 0},
                                 OpRow{"Mean", mean_of, kEveryInput},
                                 OpRow{"Min", folded<fn_min, whole_min, minimum>, kEveryInput, 0},
                                 OpRow{"Mish", unary<mish>, 1},
                                 OpRow{"Mod", modulo, 0, 0},
                                 OpRow{"Mul", arithmetic<mul>, kEveryInput, 0},
                                 OpRow{"Neg", exact<whole_neg, neg>, 1},
                                 OpRow{"PRelu", prelu, kEveryInput},
                                 OpRow{"Pow", power, 1, 0},
                                 OpRow{"Reciprocal", unary<reciprocal>, 1},
                                 OpRow{"Relu", exact<whole_relu, relu>, 1},
                                 OpRow{"Round", unary<round>, 1},
                                 OpRow{"Selu", selu, 1},
                                 OpRow{"Shrink", shrink},
                                 OpRow{"Sigmoid", unary<sigmoid>, 1},
                                 OpRow{"Sign", sign_of, 1, 0},
                                 OpRow{"Sin", unary<sin>, 1},
                                 OpRow{"Sinh", mapped<fn_sinh>},
                                 OpRow{"Softplus", unary<softplus>, 1},
                                 OpRow{"Softsign", mapped<fn_softsign>},
                                 OpRow{"Sqrt", unary<sqrt>, 1},
                                 OpRow{"Sub", arithmetic<sub>, kEveryInput, 0},
                                 OpRow{"Sum", folded<fn_add, whole_add, add>, kEveryInput, 0},
                                 OpRow{"SwiGLU", swiglu, 2},
                                 OpRow{"Swish", swish, 1},
                                 OpRow{"Tan", mapped<fn_tan>},
                                 OpRow{"Tanh", unary<tanh>, 1},
                                 OpRow{"ThresholdedRelu", thresholded_relu}};

}  // namespace

std::span<const OpRow> math_ops() { return kMathOps; }

}  // namespace ingot::onnx
