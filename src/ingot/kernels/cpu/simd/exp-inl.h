// 2^x and tanh of vectors of floats. Included once per Highway target.
#if defined(INGOT_EXP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_EXP_INL_H
#undef INGOT_EXP_INL_H
#else
#define INGOT_EXP_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 2^x to about one unit in the last place for x <= 127; below −126 it gives at most 2^−126. The polynomial is
// the Taylor series of 2^f for |f| <= 1/2, whose first term left out is below 1.4e-9.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_lanes(D d, V x) {
  const hn::RebindToSigned<D> di;
  x = hn::Max(hn::Set(d, -126.0F), x);  // in this order a NaN stays
  const auto whole = hn::NearestInt(x);
  const auto f = hn::Sub(x, hn::ConvertTo(d, whole));
  auto p = hn::MulAdd(f, hn::Set(d, 1.5252734e-5F), hn::Set(d, 1.5403530e-4F));
  p = hn::MulAdd(p, f, hn::Set(d, 1.3333558e-3F));
  p = hn::MulAdd(p, f, hn::Set(d, 9.6181291e-3F));
  p = hn::MulAdd(p, f, hn::Set(d, 5.5504109e-2F));
  p = hn::MulAdd(p, f, hn::Set(d, 2.4022651e-1F));
  p = hn::MulAdd(p, f, hn::Set(d, 6.9314718e-1F));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0F));
  const auto power = hn::ShiftLeft<23>(hn::Add(whole, hn::Set(di, 127)));
  return hn::Mul(p, hn::BitCast(d, power));
}

// tanh(x) = 1 − 2 / (1 + e^2x); absolute error about 1e-7.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh_lanes(D d, V x) {
  const auto bound = hn::Set(d, 10.0F);
  x = hn::Min(bound, hn::Max(hn::Neg(bound), x));  // in this order a NaN stays
  const auto e = exp2_lanes(d, hn::Mul(x, hn::Set(d, 2.8853900817779268F)));
  const auto one = hn::Set(d, 1.0F);
  return hn::Sub(one, hn::Div(hn::Set(d, 2.0F), hn::Add(one, e)));
}

}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
