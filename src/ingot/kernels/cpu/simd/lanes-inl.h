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

using HalfVec = hn::Vec<Half>;

inline hn::Vec<D> widen_bf16(HalfVec v) {
  return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D>(), v)));
}
// To nearest even; NaN stays NaN.
inline HalfVec narrow_bf16(hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> bits;
  const auto word = hn::BitCast(bits, v);
  const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(bits, 1U));
  const auto rounded = hn::ShiftRight<16>(hn::Add(word, hn::Add(odd, hn::Set(bits, 0x7fffU))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(word), hn::Set(bits, 0x40U));
  return hn::TruncateTo(Half(), hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(v)), quiet, rounded));
}

// Where the processor converts f16 itself. Highway's own way for others rounds towards zero, and takes
// infinities and NaN for large numbers.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64
inline hn::Vec<D> widen_f16(HalfVec v) {
  return hn::PromoteTo(D(), hn::BitCast(hn::Rebind<hwy::float16_t, D>(), v));
}
inline HalfVec narrow_f16(hn::Vec<D> v) {
  return hn::BitCast(Half(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
}
#else
inline hn::Vec<D> widen_f16(HalfVec v) {
  const hn::RebindToUnsigned<D> bits;
  const auto word = hn::PromoteTo(bits, v);
  const auto sign = hn::ShiftLeft<16>(hn::And(word, hn::Set(bits, 0x8000U)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(word, hn::Set(bits, 0x7fffU)));
  // The same bits as an f32 have an exponent that is too small by 112, denormals too.
  const auto value = hn::BitCast(bits, hn::Mul(hn::BitCast(D(), magnitude), hn::Set(D(), 0x1p112F)));
  const auto special = hn::Or(magnitude, hn::Set(bits, 0x7f800000U));  // infinities and NaN
  const auto is_special =
      hn::Gt(hn::BitCast(hn::RebindToSigned<D>(), magnitude), hn::Set(hn::RebindToSigned<D>(), 0x0f7fffff));
  const auto result = hn::IfThenElse(hn::RebindMask(bits, is_special), special, value);
  return hn::BitCast(D(), hn::Or(result, sign));
}
// To nearest even, beyond the largest to infinity; NaN stays NaN.
inline HalfVec narrow_f16(hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> bits;
  const hn::RebindToSigned<D> whole;
  const auto word = hn::BitCast(bits, v);
  const auto magnitude = hn::And(word, hn::Set(bits, 0x7fffffffU));
  const auto signed_magnitude = hn::BitCast(whole, magnitude);
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(bits, 1U));
  const auto normal = hn::ShiftRight<13>(
      hn::Add(hn::Sub(magnitude, hn::Set(bits, 112U << 23)), hn::Add(odd, hn::Set(bits, 0xfffU))));
  // Below 2⁻¹⁴ adding 0.5 leaves a whole number of f16's smallest steps in the low bits, rounded.
  const auto half = hn::Set(D(), 0.5F);
  const auto small =
      hn::Sub(hn::BitCast(bits, hn::Add(hn::BitCast(D(), magnitude), half)), hn::BitCast(bits, half));
  const auto quiet =
      hn::Or(hn::And(hn::ShiftRight<13>(magnitude), hn::Set(bits, 0x3ffU)), hn::Set(bits, 0x7e00U));
  const auto is_small = hn::Lt(signed_magnitude, hn::Set(whole, 0x38800000));
  const auto is_large = hn::Gt(signed_magnitude, hn::Set(whole, 0x477fffff));
  auto code = hn::IfThenElse(hn::RebindMask(bits, is_small), small, normal);
  code = hn::IfThenElse(hn::RebindMask(bits, is_large), hn::Set(bits, 0x7c00U), code);
  code = hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(v)), quiet, code);
  const auto sign = hn::ShiftRight<16>(hn::And(word, hn::Set(bits, 0x80000000U)));
  return hn::TruncateTo(Half(), hn::Or(code, sign));
}
#endif

inline hn::Vec<D> load_lanes(D d, const float* p) { return hn::LoadU(d, p); }
inline hn::Vec<D> load_lanes(D, const bf16* p) {
  return widen_bf16(hn::LoadU(Half(), reinterpret_cast<const std::uint16_t*>(p)));
}
inline hn::Vec<D> load_lanes(D, const f16* p) {
  return widen_f16(hn::LoadU(Half(), reinterpret_cast<const std::uint16_t*>(p)));
}
inline hn::Vec<D> load_lanes(D d, const std::int8_t* p) {
  const hn::Rebind<std::int8_t, D> bytes;
  const hn::RebindToSigned<D> words;
  return hn::ConvertTo(d, hn::PromoteTo(words, hn::LoadU(bytes, p)));
}

inline void store_lanes(D d, hn::Vec<D> v, float* p) { hn::StoreU(v, d, p); }
inline void store_lanes(D, hn::Vec<D> v, bf16* p) {
  hn::StoreU(narrow_bf16(v), Half(), reinterpret_cast<std::uint16_t*>(p));
}
inline void store_lanes(D, hn::Vec<D> v, f16* p) {
  hn::StoreU(narrow_f16(v), Half(), reinterpret_cast<std::uint16_t*>(p));
}

}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
