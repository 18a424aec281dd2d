#include <cmath>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/blocks.h"
#include "ingot/kernels/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/unary_backward.cpp"
#include <hwy/foreach_target.h>

#include "ingot/kernels/cpu/simd/math-inl.h"
#include "ingot/kernels/cpu/simd/mish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

// σ(x)·(1 + x·(1 − σ(x))) with s = σ(x)
HWY_INLINE V silu_derivative(V x, V s) {
  const V one = set(1.0F);
  return hn::Mul(s, hn::MulAdd(x, hn::Sub(one, s), one));
}

HWY_INLINE V gelu_erf_derivative(V x) {  // Φ(x) + x·φ(x)
  const V cdf = hn::MulAdd(set(0.5F), erf(hn::Mul(x, set(0.70710678F))), set(0.5F));
  const V pdf = hn::Mul(set(0.3989422804F), exp(hn::Mul(hn::Mul(x, x), set(-0.5F))));
  return hn::MulAdd(x, pdf, cdf);
}

HWY_INLINE V gelu_tanh_derivative(V x) {  // s + x·s(1 − s)·2u′ with s = sigmoid(2u)
  const V two_scale = set(1.5957691216057308F), one = set(1.0F), square = hn::Mul(x, x);
  const V s = sigmoid(hn::Mul(hn::Mul(two_scale, x), hn::MulAdd(set(0.044715F), square, one)));
  const V slope = hn::Mul(two_scale, hn::MulAdd(set(0.134145F), square, one));
  // s(1 − s) is 0 long before x·slope overflows, but 0·∞ would be NaN for |x| beyond 1e12.
  const V limited = hn::Min(hn::Max(hn::Mul(x, slope), set(-1e30F)), set(1e30F));
  return hn::MulAdd(limited, hn::Mul(s, hn::Sub(one, s)), s);
}

void unary_backward_block(UnaryOp op, const float* saved, const float* dy, float* dx, std::int64_t n,
                          float alpha, float beta, bool accumulate) {
  const D d;
  const V a = set(alpha), b = set(beta), one = set(1.0F), zero = hn::Zero(d);
  // f gets s, the argument or the result (derivative_uses_result), and gives the derivative.
  const auto run = [&](auto f) HWY_ATTR {
    map<2>({saved, dy}, dx, n, accumulate, [=](V s, V g) HWY_ATTR { return hn::Mul(g, f(s)); });
  };
  const auto run_if = [&](auto mask) HWY_ATTR {
    map<2>({saved, dy}, dx, n, accumulate, [=](V s, V g) HWY_ATTR { return hn::IfThenElseZero(mask(s), g); });
  };
  switch (op) {
    case UnaryOp::scale:
      return map<1>({dy}, dx, n, accumulate, [=](V g) HWY_ATTR { return hn::Mul(g, a); });
    case UnaryOp::abs:
      return run([=](V s) HWY_ATTR { return hn::IfThenElse(hn::Eq(s, zero), zero, hn::CopySign(one, s)); });
    case UnaryOp::exp:
      return run([=](V s) HWY_ATTR { return s; });
    case UnaryOp::log:
      return map<2>({saved, dy}, dx, n, accumulate, [=](V s, V g) HWY_ATTR { return hn::Div(g, s); });
    case UnaryOp::sqrt:
      return run([=](V s) HWY_ATTR { return hn::Div(set(0.5F), s); });
    case UnaryOp::rsqrt:
      return run([=](V s) HWY_ATTR { return hn::Mul(hn::Mul(set(-0.5F), s), hn::Mul(s, s)); });
    case UnaryOp::square:
      return run([=](V s) HWY_ATTR { return hn::Add(s, s); });
    case UnaryOp::reciprocal:
      return run([=](V s) HWY_ATTR { return hn::Neg(hn::Mul(s, s)); });
    case UnaryOp::sin:
      return run([=](V s) HWY_ATTR { return cos(s); });
    case UnaryOp::cos:
      return run([=](V s) HWY_ATTR { return hn::Neg(sin(s)); });
    case UnaryOp::sigmoid:
      return run([=](V s) HWY_ATTR { return hn::Mul(s, hn::Sub(one, s)); });
    case UnaryOp::tanh:
      return run([=](V s) HWY_ATTR { return hn::NegMulAdd(s, s, one); });
    case UnaryOp::relu:
      return run_if([=](V s) HWY_ATTR { return hn::Gt(s, zero); });
    case UnaryOp::silu:
      return run([=](V s) HWY_ATTR { return silu_derivative(s, sigmoid(s)); });
    case UnaryOp::gelu_erf:
      return run([=](V s) HWY_ATTR { return gelu_erf_derivative(s); });
    case UnaryOp::gelu_tanh:
      return run([=](V s) HWY_ATTR { return gelu_tanh_derivative(s); });
    case UnaryOp::mish:
      return run([=](V s) HWY_ATTR { return mish_derivative(d, s); });
    case UnaryOp::softplus:
      return run([=](V s) HWY_ATTR { return sigmoid(s); });
    case UnaryOp::pow:
      if (alpha == 0) return run([=](V) HWY_ATTR { return zero; });
      return run([=](V s) HWY_ATTR { return hn::Mul(a, power(s, alpha - 1.0F)); });
    case UnaryOp::clamp:
      return run_if([=](V s) HWY_ATTR { return hn::And(hn::Ge(s, a), hn::Le(s, b)); });
    case UnaryOp::erf:
      return run([=](V s) HWY_ATTR { return hn::Mul(set(1.1283791671F), exp(hn::Neg(hn::Mul(s, s)))); });
    case UnaryOp::leaky_relu:
      return run([=](V s) HWY_ATTR { return hn::IfThenElse(hn::Gt(s, zero), one, a); });
    case UnaryOp::elu:
      return run([=](V s) HWY_ATTR { return hn::IfThenElse(hn::Gt(s, zero), one, hn::Mul(a, exp(s))); });
    case UnaryOp::floor:
    case UnaryOp::ceil:
    case UnaryOp::round:
    case UnaryOp::sign:
      return map<1>({dy}, dx, n, accumulate, [=](V g) HWY_ATTR { return hn::Mul(g, zero); });
  }
}

void silu_mul_block(const float* gate, const float* up, float* y, std::int64_t n) {
  map<2>({gate, up}, y, n, false, [](V g, V u) HWY_ATTR { return hn::Mul(hn::Mul(g, sigmoid(g)), u); });
}

// in: gate, up, dy; out: dgate, dup, product, null where not wanted. σ costs most: it is taken once for all.
void silu_mul_backward_block(const float* const* in, float* const* out, std::int64_t n, bool accumulate_dgate,
                             bool accumulate_dup) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto step = [&](auto load, auto store) HWY_ATTR {
    const auto put = [&](V x, float* to, bool accumulate) HWY_ATTR {
      if (to != nullptr) store(accumulate ? hn::Add(load(to), x) : x, to);
    };
    const V gate = load(in[0]), up = load(in[1]), dy = load(in[2]);
    const V s = sigmoid(gate), silu = hn::Mul(gate, s);
    put(hn::Mul(hn::Mul(dy, up), silu_derivative(gate, s)), out[0], accumulate_dgate);
    put(hn::Mul(dy, silu), out[1], accumulate_dup);
    put(hn::Mul(silu, up), out[2], false);
  };
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    step([&](const float* from) HWY_ATTR { return hn::LoadU(d, from + i); },
         [&](V x, float* to) HWY_ATTR { hn::StoreU(x, d, to + i); });
  }
  if (i >= n) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(n - i));
  step([&](const float* from) HWY_ATTR { return hn::MaskedLoad(rest, d, from + i); },
       [&](V x, float* to) HWY_ATTR { hn::BlendedStore(x, rest, d, to + i); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(unary_backward_block);
HWY_EXPORT(silu_mul_block);
HWY_EXPORT(silu_mul_backward_block);

constexpr std::int64_t kGrain = 8192;  // elements that take some 5 µs

void run_unary_backward(const UnaryBackwardArgs& args, Stream) {
  for_each_block<3>({reads(args.saved), reads(args.dy), writes(args.dx, args.accumulate)}, kGrain,
                    [&](const auto& p, std::int64_t n) {
                      HWY_DYNAMIC_DISPATCH(unary_backward_block)
                      (args.op, p[0], p[1], p[2], n, static_cast<float>(args.alpha),
                       static_cast<float>(args.beta), args.accumulate);
                    });
}

void run_silu_mul(const SiluMulArgs& args, Stream) {
  for_each_block<3>({reads(args.gate), reads(args.up), writes(args.y, false)}, kGrain,
                    [&](const auto& p, std::int64_t n) {
                      HWY_DYNAMIC_DISPATCH(silu_mul_block)(p[0], p[1], p[2], n);
                    });
}

void run_silu_mul_backward(const SiluMulBackwardArgs& args, Stream) {
  for_each_block<6>(
      {reads(args.gate), reads(args.up), reads(args.dy), writes(args.dgate, args.accumulate_dgate),
       writes(args.dup, args.accumulate_dup), writes(args.product, false)},
      kGrain, [&](const auto& p, std::int64_t n) {
        HWY_DYNAMIC_DISPATCH(silu_mul_backward_block)
        (p.data(), p.data() + 3, n, args.accumulate_dgate, args.accumulate_dup);
      });
}

}  // namespace

void register_unary_backward_simd() {
  unary_backward.add(DeviceType::cpu, {"simd", ImplKind::simd,
                                       [](const UnaryBackwardArgs& args) {
                                         return are_simd_floats(args.saved, args.dy, args.dx);
                                       },
                                       run_unary_backward});
  silu_mul.add(
      DeviceType::cpu,
      {"simd", ImplKind::simd,
       [](const SiluMulArgs& args) { return are_simd_floats(args.gate, args.up, args.y); }, run_silu_mul});
  silu_mul_backward.add(DeviceType::cpu, {"simd", ImplKind::simd,
                                          [](const SiluMulBackwardArgs& args) {
                                            return are_simd_floats(args.gate, args.up, args.dy, args.dgate,
                                                                   args.dup, args.product);
                                          },
                                          run_silu_mul_backward});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
