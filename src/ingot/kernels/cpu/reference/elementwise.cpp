#include "ingot/kernels/elementwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <type_traits>

#include "ingot/base/error.h"
#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/strided.h"

namespace ingot::kernels::cpu {
namespace {

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

template <class T>
T softplus(T x) {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
}

constexpr double kGeluCubic = 0.044715;
const double kGeluScale = std::sqrt(2.0 / std::numbers::pi);

template <class T>
T apply(UnaryOp op, T x, T alpha, T beta) {
  switch (op) {
    case UnaryOp::scale:
      return alpha * x + beta;
    case UnaryOp::abs:
      return std::abs(x);
    case UnaryOp::exp:
      return std::exp(x);
    case UnaryOp::log:
      return std::log(x);
    case UnaryOp::sqrt:
      return std::sqrt(x);
    case UnaryOp::rsqrt:
      return 1 / std::sqrt(x);
    case UnaryOp::square:
      return x * x;
    case UnaryOp::reciprocal:
      return 1 / x;
    case UnaryOp::sin:
      return std::sin(x);
    case UnaryOp::cos:
      return std::cos(x);
    case UnaryOp::sigmoid:
      return sigmoid(x);
    case UnaryOp::tanh:
      return std::tanh(x);
    case UnaryOp::relu:
      return x < 0 ? T{0} : x;
    case UnaryOp::silu:
      return x * sigmoid(x);
    case UnaryOp::gelu_erf:
      return x / 2 * (1 + std::erf(x / std::numbers::sqrt2_v<T>));
    case UnaryOp::gelu_tanh:
      return x / 2 *
             (1 + std::tanh(static_cast<T>(kGeluScale) * (x + static_cast<T>(kGeluCubic) * x * x * x)));
    case UnaryOp::mish:
      return x * std::tanh(softplus(x));
    case UnaryOp::softplus:
      return softplus(x);
    case UnaryOp::pow:
      return std::pow(x, alpha);
    case UnaryOp::clamp:
      return x < alpha ? alpha : x > beta ? beta : x;
    case UnaryOp::erf:
      return std::erf(x);
    case UnaryOp::leaky_relu:
      return x > 0 ? x : alpha * x;
    case UnaryOp::elu:
      return x > 0 ? x : alpha * std::expm1(x);
    case UnaryOp::floor:
      return std::floor(x);
    case UnaryOp::ceil:
      return std::ceil(x);
    case UnaryOp::round:
      return std::nearbyint(x);
    case UnaryOp::sign:
      return x > 0 ? T{1} : x < 0 ? T{-1} : x;
  }
  return x;
}

template <class T>
T gelu_tanh_derivative(T x) {
  const T cubic = static_cast<T>(kGeluCubic), scale = static_cast<T>(kGeluScale);
  const T t = std::tanh(scale * (x + cubic * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * scale * (1 + 3 * cubic * x * x);
}

// f'(x) from s, the argument or the result (derivative_uses_result).
template <class T>
T derivative(UnaryOp op, T s, T alpha, T beta) {
  switch (op) {
    case UnaryOp::scale:
      return alpha;
    case UnaryOp::abs:
      return static_cast<T>((s > 0) - (s < 0));
    case UnaryOp::exp:
      return s;
    case UnaryOp::log:
      return 1 / s;
    case UnaryOp::sqrt:
      return 1 / (2 * s);
    case UnaryOp::rsqrt:
      return -s * s * s / 2;
    case UnaryOp::square:
      return 2 * s;
    case UnaryOp::reciprocal:
      return -s * s;
    case UnaryOp::sin:
      return std::cos(s);
    case UnaryOp::cos:
      return -std::sin(s);
    case UnaryOp::sigmoid:
      return s * (1 - s);
    case UnaryOp::tanh:
      return 1 - s * s;
    case UnaryOp::relu:
      return s > 0 ? T{1} : T{0};
    case UnaryOp::silu:
      return sigmoid(s) * (1 + s * (1 - sigmoid(s)));
    case UnaryOp::gelu_erf:
      return (1 + std::erf(s / std::numbers::sqrt2_v<T>)) / 2 +
             s * std::exp(-s * s / 2) * std::numbers::inv_sqrtpi_v<T> / std::numbers::sqrt2_v<T>;
    case UnaryOp::gelu_tanh:
      return gelu_tanh_derivative(s);
    case UnaryOp::mish: {
      const T t = std::tanh(softplus(s));
      return t + s * sigmoid(s) * (1 - t * t);
    }
    case UnaryOp::softplus:
      return sigmoid(s);
    case UnaryOp::pow:
      return alpha == 0 ? T{0} : alpha * std::pow(s, alpha - 1);
    case UnaryOp::clamp:
      return s >= alpha && s <= beta ? T{1} : T{0};
    case UnaryOp::erf:
      return 2 * std::numbers::inv_sqrtpi_v<T> * std::exp(-s * s);
    case UnaryOp::leaky_relu:
      return s > 0 ? T{1} : alpha;
    case UnaryOp::elu:
      return s > 0 ? T{1} : alpha * std::exp(s);
    case UnaryOp::floor:
    case UnaryOp::ceil:
    case UnaryOp::round:
    case UnaryOp::sign:
      return 0;
  }
  return 1;
}

void unary_reference(const UnaryArgs& args, Stream) {
  dispatch_float(args.x.dtype, "unary", [&]<class T>() {
    using Acc = Accumulator<T>;
    const auto alpha = static_cast<Acc>(args.alpha), beta = static_cast<Acc>(args.beta);
    for_each_run<2>({args.x, args.y}, [&](const auto& at, std::int64_t n, const auto& step) {
      for (std::int64_t i = 0; i < n; ++i) {
        store(args.y.as<T>() + at[1] + i * step[1],
              apply<Acc>(args.op, load(args.x.as<T>() + at[0] + i * step[0]), alpha, beta), args.accumulate);
      }
    });
  });
}

void unary_backward_reference(const UnaryBackwardArgs& args, Stream) {
  dispatch_float(args.dy.dtype, "unary_backward", [&]<class T>() {
    using Acc = Accumulator<T>;
    const auto alpha = static_cast<Acc>(args.alpha), beta = static_cast<Acc>(args.beta);
    for_each_run<3>({args.saved, args.dy, args.dx}, [&](const auto& at, std::int64_t n, const auto& step) {
      for (std::int64_t i = 0; i < n; ++i) {
        const Acc saved = args.saved ? load(args.saved.as<T>() + at[0] + i * step[0]) : Acc{0};
        const Acc dy = load(args.dy.as<T>() + at[1] + i * step[1]);
        store(args.dx.as<T>() + at[2] + i * step[2], dy * derivative<Acc>(args.op, saved, alpha, beta),
              args.accumulate);
      }
    });
  });
}

template <class T>
T apply(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::sub:
      return a - b;
    case BinaryOp::mul:
      return a * b;
    case BinaryOp::div:
      return a / b;
    case BinaryOp::maximum:
      return a > b || a != a ? a : b;  // a != a: a is NaN
    case BinaryOp::minimum:
      return a < b || a != a ? a : b;
  }
  return a;
}

template <class T>
void binary_integers(const BinaryArgs& args) {
  INGOT_CHECK(args.op != BinaryOp::div, KernelError("binary", "integers cannot be divided; convert to f32"));
  for_each_run<3>({args.a, args.b, args.y}, [&](const auto& at, std::int64_t n, const auto& step) {
    for (std::int64_t i = 0; i < n; ++i) {
      T& y = args.y.as<T>()[at[2] + i * step[2]];
      const T value =
          apply<T>(args.op, args.a.as<T>()[at[0] + i * step[0]], args.b.as<T>()[at[1] + i * step[1]]);
      y = args.accumulate ? static_cast<T>(y + value) : value;
    }
  });
}

void binary_reference(const BinaryArgs& args, Stream) {
  if (args.y.dtype == DType::i64) return binary_integers<std::int64_t>(args);
  if (args.y.dtype == DType::i32) return binary_integers<std::int32_t>(args);
  dispatch_float(args.y.dtype, "binary", [&]<class T>() {
    using Acc = Accumulator<T>;
    for_each_run<3>({args.a, args.b, args.y}, [&](const auto& at, std::int64_t n, const auto& step) {
      for (std::int64_t i = 0; i < n; ++i) {
        store(args.y.as<T>() + at[2] + i * step[2],
              apply<Acc>(args.op, load(args.a.as<T>() + at[0] + i * step[0]),
                         load(args.b.as<T>() + at[1] + i * step[1])),
              args.accumulate);
      }
    });
  });
}

template <class T>
T partial(BinaryOp op, T a, T b) {
  if (op == BinaryOp::div) return -a / (b * b);
  if (a == b) return T{1} / 2;
  return (op == BinaryOp::maximum) == (a > b) ? T{1} : T{0};
}

void binary_backward_reference(const BinaryBackwardArgs& args, Stream) {
  dispatch_float(args.dy.dtype, "binary_backward", [&]<class T>() {
    using Acc = Accumulator<T>;
    for_each_run<4>(
        {args.a, args.b, args.dy, args.dx}, [&](const auto& at, std::int64_t n, const auto& step) {
          for (std::int64_t i = 0; i < n; ++i) {
            const Acc a = load(args.a.as<T>() + at[0] + i * step[0]),
                      b = load(args.b.as<T>() + at[1] + i * step[1]);
            store(args.dx.as<T>() + at[3] + i * step[3],
                  load(args.dy.as<T>() + at[2] + i * step[2]) * partial<Acc>(args.op, a, b), args.accumulate);
          }
        });
  });
}

template <class T>
bool apply(CompareOp op, T a, T b) {
  switch (op) {
    case CompareOp::equal:
      return a == b;
    case CompareOp::not_equal:
      return a != b;
    case CompareOp::less:
      return a < b;
    case CompareOp::less_equal:
      return a <= b;
    case CompareOp::greater:
      return a > b;
    case CompareOp::greater_equal:
      return a >= b;
  }
  return false;
}

void compare_reference(const CompareArgs& args, Stream) {
  dispatch_any(args.a.dtype, [&]<class T>() {
    using Value = std::conditional_t<std::is_arithmetic_v<T>, T, float>;
    for_each_run<3>({args.a, args.b, args.y}, [&](const auto& at, std::int64_t n, const auto& step) {
      for (std::int64_t i = 0; i < n; ++i) {
        args.y.as<bool>()[at[2] + i * step[2]] =
            apply<Value>(args.op, static_cast<Value>(args.a.as<T>()[at[0] + i * step[0]]),
                         static_cast<Value>(args.b.as<T>()[at[1] + i * step[1]]));
      }
    });
  });
}

void where_reference(const WhereArgs& args, Stream) {
  dispatch_any(args.y.dtype, [&]<class T>() {
    for_each_run<4>({args.condition, args.a, args.b, args.y},
                    [&](const auto& at, std::int64_t n, const auto& step) {
                      for (std::int64_t i = 0; i < n; ++i) {
                        const bool first = args.condition.as<bool>()[at[0] + i * step[0]];
                        const View& from = first ? args.a : args.b;
                        const std::size_t k = first ? 1 : 2;
                        const T value = from ? from.as<T>()[at[k] + i * step[k]] : T{};
                        T& y = args.y.as<T>()[at[3] + i * step[3]];
                        if constexpr (std::is_same_v<T, bool> || std::is_integral_v<T>) {
                          y = value;  // only gradients accumulate, and they are floating
                        } else if (args.accumulate) {
                          y = static_cast<T>(load(&y) + load(&value));
                        } else {
                          y = value;
                        }
                      }
                    });
  });
}

void silu_mul_reference(const SiluMulArgs& args, Stream) {
  dispatch_float(args.gate.dtype, "silu_mul", [&]<class T>() {
    for_each_run<3>({args.gate, args.up, args.y}, [&](const auto& at, std::int64_t n, const auto& step) {
      for (std::int64_t i = 0; i < n; ++i) {
        const auto gate = load(args.gate.as<T>() + at[0] + i * step[0]);
        store(args.y.as<T>() + at[2] + i * step[2],
              gate * sigmoid(gate) * load(args.up.as<T>() + at[1] + i * step[1]));
      }
    });
  });
}

void silu_mul_backward_reference(const SiluMulBackwardArgs& args, Stream) {
  dispatch_float(args.gate.dtype, "silu_mul_backward", [&]<class T>() {
    using Acc = Accumulator<T>;
    const std::array views{args.gate, args.up, args.dy, args.dgate, args.dup, args.product};
    for_each_run<6>(views, [&](const auto& at, std::int64_t n, const auto& step) {
      for (std::int64_t i = 0; i < n; ++i) {
        const Acc gate = load(args.gate.as<T>() + at[0] + i * step[0]);
        const Acc up = load(args.up.as<T>() + at[1] + i * step[1]);
        const Acc dy = load(args.dy.as<T>() + at[2] + i * step[2]);
        if (args.dgate) {
          store(args.dgate.as<T>() + at[3] + i * step[3],
                dy * up * derivative<Acc>(UnaryOp::silu, gate, 0, 0), args.accumulate_dgate);
        }
        if (args.dup) {
          store(args.dup.as<T>() + at[4] + i * step[4], dy * gate * sigmoid(gate), args.accumulate_dup);
        }
        if (args.product) store(args.product.as<T>() + at[5] + i * step[5], gate * sigmoid(gate) * up);
      }
    });
  });
}

void fill_reference(const FillArgs& args, Stream) {
  dispatch_any(args.y.dtype, [&]<class T>() {
    T value;
    if constexpr (std::is_same_v<T, bool>) {
      value = args.value != 0;
    } else if constexpr (std::is_arithmetic_v<T>) {
      value = static_cast<T>(args.value);
    } else {
      value = T(static_cast<float>(args.value));
    }
    for_each_run<1>({args.y}, [&](const auto& at, std::int64_t n, const auto& step) {
      for (std::int64_t i = 0; i < n; ++i) args.y.as<T>()[at[0] + i * step[0]] = value;
    });
  });
}

}  // namespace

void register_elementwise_reference() {
  const auto add = [](auto& kernel, auto run) {
    kernel.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, run});
  };
  add(unary, unary_reference);
  add(unary_backward, unary_backward_reference);
  add(binary, binary_reference);
  add(binary_backward, binary_backward_reference);
  add(compare, compare_reference);
  add(where, where_reference);
  add(silu_mul, silu_mul_reference);
  add(silu_mul_backward, silu_mul_backward_reference);
  add(fill, fill_reference);
}

}  // namespace ingot::kernels::cpu
