#include <cmath>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/blocks.h"
#include "ingot/kernels/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/unary.cpp"
#include <hwy/foreach_target.h>

#include "ingot/kernels/cpu/simd/math-inl.h"
#include "ingot/kernels/cpu/simd/mish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE V gelu_tanh(V x) {  // x·½(1 + tanh u) = x·sigmoid(2u)
  const V inner = hn::MulAdd(set(0.044715F), hn::Mul(x, x), set(1.0F));
  return hn::Mul(x, sigmoid(hn::Mul(hn::Mul(set(1.5957691216057308F), x), inner)));
}

void unary_block(UnaryOp op, const float* x, float* y, std::int64_t n, float alpha, float beta,
                 bool accumulate) {
  const D d;
  const V a = set(alpha), b = set(beta), one = set(1.0F), zero = hn::Zero(d);
  const auto run = [&](auto f) HWY_ATTR { map<1>({x}, y, n, accumulate, f); };
  switch (op) {
    case UnaryOp::scale:
      return run([=](V v) HWY_ATTR { return hn::MulAdd(v, a, b); });
    case UnaryOp::abs:
      return run([=](V v) HWY_ATTR { return hn::Abs(v); });
    case UnaryOp::exp:
      return run([=](V v) HWY_ATTR { return exp(v); });
    case UnaryOp::log:
      // Highway's logarithm takes positive, finite arguments; the limits are set here.
      return run([=](V v) HWY_ATTR {
        const V infinity = set(INFINITY);
        V r = hn::IfThenElse(hn::Eq(v, zero), hn::Neg(infinity), hn::Log(d, v));
        r = hn::IfThenElse(hn::Eq(v, infinity), infinity, r);
        return hn::IfThenElse(hn::Or(hn::Lt(v, zero), hn::IsNaN(v)), set(NAN), r);
      });
    case UnaryOp::sqrt:
      return run([=](V v) HWY_ATTR { return hn::Sqrt(v); });
    case UnaryOp::rsqrt:
      return run([=](V v) HWY_ATTR { return hn::Div(one, hn::Sqrt(v)); });
    case UnaryOp::square:
      return run([=](V v) HWY_ATTR { return hn::Mul(v, v); });
    case UnaryOp::reciprocal:
      return run([=](V v) HWY_ATTR { return hn::Div(one, v); });
    case UnaryOp::sin:
      return run([=](V v) HWY_ATTR { return sin(v); });
    case UnaryOp::cos:
      return run([=](V v) HWY_ATTR { return cos(v); });
    case UnaryOp::sigmoid:
      return run([=](V v) HWY_ATTR { return sigmoid(v); });
    case UnaryOp::tanh:
      return run([=](V v) HWY_ATTR { return tanh(v); });
    case UnaryOp::relu:  // not Max: that would turn NaN into 0
      return run([=](V v) HWY_ATTR { return hn::IfThenElse(hn::Lt(v, zero), zero, v); });
    case UnaryOp::silu:
      return run([=](V v) HWY_ATTR { return hn::Mul(v, sigmoid(v)); });
    case UnaryOp::gelu_erf:
      return run([=](V v) HWY_ATTR {
        return hn::Mul(hn::Mul(v, set(0.5F)), hn::Add(one, erf(hn::Mul(v, set(0.70710678F)))));
      });
    case UnaryOp::gelu_tanh:
      return run([=](V v) HWY_ATTR { return gelu_tanh(v); });
    case UnaryOp::mish:
      return run([=](V v) HWY_ATTR { return mish(d, v); });
    case UnaryOp::softplus:
      return run([=](V v) HWY_ATTR { return softplus(v); });
    case UnaryOp::pow:
      return run([=](V v) HWY_ATTR { return power(v, alpha); });
    case UnaryOp::clamp:
      return run(
          [=](V v) HWY_ATTR { return hn::IfThenElse(hn::Lt(v, a), a, hn::IfThenElse(hn::Gt(v, b), b, v)); });
    case UnaryOp::erf:
      return run([=](V v) HWY_ATTR { return erf(v); });
    case UnaryOp::leaky_relu:
      return run([=](V v) HWY_ATTR { return hn::IfThenElse(hn::Gt(v, zero), v, hn::Mul(v, a)); });
    case UnaryOp::elu:
      return run([=](V v) HWY_ATTR {
        const V below = hn::Mul(hn::Expm1(d, hn::Min(v, zero)), a);
        return hn::IfThenElse(hn::Or(hn::Gt(v, zero), hn::IsNaN(v)), v, below);
      });
    case UnaryOp::floor:
      return run([=](V v) HWY_ATTR { return hn::Floor(v); });
    case UnaryOp::ceil:
      return run([=](V v) HWY_ATTR { return hn::Ceil(v); });
    case UnaryOp::round:
      return run([=](V v) HWY_ATTR { return hn::Round(v); });
    case UnaryOp::sign:
      return run([=](V v) HWY_ATTR {
        return hn::IfThenElse(hn::Or(hn::Gt(v, zero), hn::Lt(v, zero)), hn::CopySign(one, v), v);
      });
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(unary_block);

// Elements that take some 5 µs: several times the cost of waking a thread.
std::int64_t grain(UnaryOp op) {
  const bool cheap = op <= UnaryOp::reciprocal && op != UnaryOp::exp && op != UnaryOp::log;
  const bool steps = op >= UnaryOp::floor && op <= UnaryOp::sign;
  return cheap || steps || op == UnaryOp::relu || op == UnaryOp::clamp || op == UnaryOp::leaky_relu ? 32768
                                                                                                    : 8192;
}

void run(const UnaryArgs& args, Stream) {
  for_each_block<2>({reads(args.x), writes(args.y, args.accumulate)}, grain(args.op),
                    [&](const auto& p, std::int64_t n) {
                      HWY_DYNAMIC_DISPATCH(unary_block)
                      (args.op, p[0], p[1], n, static_cast<float>(args.alpha), static_cast<float>(args.beta),
                       args.accumulate);
                    });
}

}  // namespace

void register_unary_simd() {
  unary.add(DeviceType::cpu, {"simd", ImplKind::simd,
                              [](const UnaryArgs& args) { return are_simd_floats(args.x, args.y); }, run});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
