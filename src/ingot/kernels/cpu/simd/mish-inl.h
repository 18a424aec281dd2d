// Included once per SIMD target, so no #pragma once.
#if defined(INGOT_MISH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_MISH_INL_H_
#undef INGOT_MISH_INL_H_
#else
#define INGOT_MISH_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {

// mish(x) = x · tanh(ln(1 + e^x)) (Misra 2019). With e = e^x and n = e·(e + 2) the tanh is n / (n + 2), so
// one exponential and one division do. Beyond 20 the tanh is 1 in f32, and e^20 squared is still finite.
template <class D, class V>
HWY_INLINE V mish(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V e = hn::Exp(d, hn::Min(x, hn::Set(d, 20.0F)));
  const V n = hn::MulAdd(e, e, hn::Add(e, e));
  return hn::Mul(x, hn::Div(n, hn::Add(n, hn::Set(d, 2.0F))));
}

// d mish / dx = t + x · 4·e·(1 + e) / (n + 2)², t = n / (n + 2).
template <class D, class V>
HWY_INLINE V mish_derivative(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V e = hn::Exp(d, hn::Min(x, hn::Set(d, 20.0F)));
  const V n = hn::MulAdd(e, e, hn::Add(e, e));
  const V r = hn::Div(hn::Set(d, 1.0F), hn::Add(n, hn::Set(d, 2.0F)));
  const V e4 = hn::Mul(hn::Set(d, 4.0F), e);
  const V slope = hn::Mul(hn::Mul(hn::MulAdd(e4, e, e4), r), r);
  return hn::MulAdd(x, slope, hn::Mul(n, r));
}

}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
