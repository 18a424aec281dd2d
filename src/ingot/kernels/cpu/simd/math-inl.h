// Included once per SIMD target (Highway's convention for -inl.h files).
#if defined(INGOT_SIMD_MATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_SIMD_MATH_INL
#undef INGOT_SIMD_MATH_INL
#else
#define INGOT_SIMD_MATH_INL
#endif

#include <cmath>
#include <cstdint>
#include <cstring>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V set(float value) { return hn::Set(D(), value); }
// Highway's functions promise nothing outside their domains (e^x: up to 104; and NaN gives 0): these do.
HWY_INLINE V exp(V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(D(), hn::Min(x, set(89.0F))));  // e^89 is infinite
}

// 2^x to about one unit in the last place for x <= 128, infinite from 127.5 on; below −126 it gives at
// most 2^−126. For scores that have the factor log2(e) already. The polynomial is the Taylor series of 2^f
// for |f| <= 1/2, whose first term left out is below 1.4e-9.
HWY_INLINE V exp2(V x) {
  const D d;
  const hn::RebindToSigned<D> di;
  x = hn::Max(set(-126.0F), x);  // in this order a NaN stays
  // Floats around 1.5·2²³ are 1 apart, so that adding it rounds, as hn::NearestInt does, and leaves the
  // integer in the low bits. That takes three operations less: no integer is out of range here.
  const V shift = set(12582912.0F), shifted = hn::Add(x, shift);
  const auto f = hn::Sub(x, hn::Sub(shifted, shift));
  auto p = hn::MulAdd(f, set(1.5252734e-5F), set(1.5403530e-4F));
  p = hn::MulAdd(p, f, set(1.3333558e-3F));
  p = hn::MulAdd(p, f, set(9.6181291e-3F));
  p = hn::MulAdd(p, f, set(5.5504109e-2F));
  p = hn::MulAdd(p, f, set(2.4022651e-1F));
  p = hn::MulAdd(p, f, set(6.9314718e-1F));
  p = hn::MulAdd(p, f, set(1.0F));
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::BitCast(di, shifted), hn::Set(di, 127)));
  return hn::Mul(p, hn::BitCast(d, power));
}

// f of each lane, from the C library.
template <class F>
HWY_INLINE V each_lane(V x, F&& f) {
  float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::StoreU(x, D(), lanes);
  for (std::size_t k = 0; k < hn::Lanes(D()); ++k) lanes[k] = f(lanes[k]);
  return hn::LoadU(D(), lanes);
}

// The reduction of the argument is good up to 39000.
HWY_INLINE bool are_small_angles(V x) { return hn::AllTrue(D(), hn::Le(hn::Abs(x), set(39000.0F))); }
HWY_INLINE V sin(V x) {
  if (are_small_angles(x)) return hn::Sin(D(), x);
  return each_lane(x, [](float v) { return std::sin(v); });
}
HWY_INLINE V cos(V x) {
  if (are_small_angles(x)) return hn::Cos(D(), x);
  return each_lane(x, [](float v) { return std::cos(v); });
}
HWY_INLINE V tanh(V x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(D(), x)); }
// What graphs have most is multiplied: the C library takes 8 ns for an element, this less than a tenth of
// one.
HWY_INLINE V power(V x, float exponent) {
  const V square = hn::Mul(x, x);
  if (exponent == 1) return x;
  if (exponent == 2) return square;
  if (exponent == 3) return hn::Mul(square, x);
  if (exponent == 4) return hn::Mul(square, square);
  return each_lane(x, [exponent](float v) { return std::pow(v, exponent); });
}

// 1/(1 + e^−x), absolute error below 1e-7; 0 from where e^−x is infinite. On some targets minima lose a NaN.
HWY_INLINE V sigmoid(V x) {
  const V one = set(1.0F);
  const V inverse = exp2(hn::Min(set(128.0F), hn::Mul(x, set(-1.44269504F))));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Div(one, hn::Add(one, inverse)));
}

// erf as x·P(x²)/Q(x²), a minimax fit of ours of erf on [0, 3.925] (beyond, erf is 1 in f32): relative error
// below 4.2e-7 in f32 arithmetic.
HWY_INLINE V erf(V x) {
  const V limit = set(3.925F);
  const V c = hn::Max(hn::Min(x, limit), hn::Neg(limit));
  const V u = hn::Mul(c, c);
  V p = set(2.06662957680237e-06F), q = set(3.827103864750825e-05F);
  p = hn::MulAdd(p, u, set(0.00028505080263130367F));
  p = hn::MulAdd(p, u, set(0.003737709019333124F));
  p = hn::MulAdd(p, u, set(0.05266612768173218F));
  p = hn::MulAdd(p, u, set(0.18965159356594086F));
  p = hn::MulAdd(p, u, set(1.1283791065216064F));
  q = hn::MulAdd(q, u, set(0.0011572270886972547F));
  q = hn::MulAdd(q, u, set(0.014912999235093594F));
  q = hn::MulAdd(q, u, set(0.11381271481513977F));
  q = hn::MulAdd(q, u, set(0.5014071464538574F));
  q = hn::MulAdd(q, u, set(1.0F));
  const V y = hn::Div(hn::Mul(c, p), q);
  const V clamped = hn::Max(hn::Min(y, set(1.0F)), set(-1.0F));
  return hn::IfThenElse(hn::IsNaN(x), x, clamped);
}

HWY_INLINE V softplus(V x) {
  return hn::Add(hn::Max(x, hn::Zero(D())), hn::Log1p(D(), exp(hn::Neg(hn::Abs(x)))));
}

// y[i] = f(x[i]) or y[i] += f(x[i]) for several inputs; the tail goes through padded copies. It is added by
// the same vector operations: compilers make one of a product and its addition, which rounds once.
template <std::size_t N, class F>
HWY_INLINE void map(const float* const (&in)[N], float* y, std::int64_t n, bool accumulate, F&& f) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto eval = [&](const float* const(&p)[N], std::int64_t i) HWY_ATTR {
    if constexpr (N == 1) return f(hn::LoadU(d, p[0] + i));
    if constexpr (N == 2) return f(hn::LoadU(d, p[0] + i), hn::LoadU(d, p[1] + i));
    if constexpr (N == 3) return f(hn::LoadU(d, p[0] + i), hn::LoadU(d, p[1] + i), hn::LoadU(d, p[2] + i));
    if constexpr (N == 4) {
      return f(hn::LoadU(d, p[0] + i), hn::LoadU(d, p[1] + i), hn::LoadU(d, p[2] + i),
               hn::LoadU(d, p[3] + i));
    }
  };
  std::int64_t i = 0;
  if (accumulate) {
    for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Add(hn::LoadU(d, y + i), eval(in, i)), d, y + i);
  } else {
    for (; i + lanes <= n; i += lanes) hn::StoreU(eval(in, i), d, y + i);
  }
  if (i >= n) return;
  constexpr std::size_t kLanes = HWY_MAX_BYTES / sizeof(float);
  float padded[N][kLanes] = {};
  const float* pointers[N];
  float out[kLanes] = {};
  const auto rest = static_cast<std::size_t>(n - i);
  for (std::size_t k = 0; k < N; ++k) {
    std::memcpy(padded[k], in[k] + i, rest * sizeof(float));
    pointers[k] = padded[k];
  }
  if (accumulate) {
    std::memcpy(out, y + i, rest * sizeof(float));
    hn::StoreU(hn::Add(hn::LoadU(d, out), eval(pointers, 0)), d, out);
  } else {
    hn::StoreU(eval(pointers, 0), d, out);
  }
  std::memcpy(y + i, out, rest * sizeof(float));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
