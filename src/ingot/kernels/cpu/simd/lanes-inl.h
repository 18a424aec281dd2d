// Vectors of floats from and to memory of any training dtype. Included once per Highway target.
#if defined(INGOT_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_LANES_INL_H
#undef INGOT_LANES_INL_H
#else
#define INGOT_LANES_INL_H
#endif

#include <cstdint>

#include <hwy/highway.h>

#include "ingot/core/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using Half = hn::Rebind<std::uint16_t, D>;

inline hn::Vec<D> load_lanes(D d, const float* p) { return hn::LoadU(d, p); }
inline hn::Vec<D> load_lanes(D d, const bf16* p) {
  const hn::RebindToUnsigned<D> bits;
  const auto words = hn::LoadU(Half(), reinterpret_cast<const std::uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, words)));
}
inline hn::Vec<D> load_lanes(D d, const f16* p) {
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p)));
}
inline hn::Vec<D> load_lanes(D d, const std::int8_t* p) {
  const hn::Rebind<std::int8_t, D> bytes;
  const hn::RebindToSigned<D> words;
  return hn::ConvertTo(d, hn::PromoteTo(words, hn::LoadU(bytes, p)));
}

inline void store_lanes(D d, hn::Vec<D> v, float* p) { hn::StoreU(v, d, p); }
// Round to nearest even; NaN stays NaN.
inline void store_lanes(D, hn::Vec<D> v, bf16* p) {
  const hn::RebindToUnsigned<D> bits;
  const auto word = hn::BitCast(bits, v);
  const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(bits, 1U));
  const auto rounded = hn::ShiftRight<16>(hn::Add(word, hn::Add(odd, hn::Set(bits, 0x7fffU))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(word), hn::Set(bits, 0x40U));
  const auto upper = hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(v)), quiet, rounded);
  hn::StoreU(hn::TruncateTo(Half(), upper), Half(), reinterpret_cast<std::uint16_t*>(p));
}
inline void store_lanes(D, hn::Vec<D> v, f16* p) {
  const hn::Rebind<hwy::float16_t, D> half;
  hn::StoreU(hn::DemoteTo(half, v), half, reinterpret_cast<hwy::float16_t*>(p));
}

}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
