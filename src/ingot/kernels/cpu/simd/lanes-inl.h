// Vectors of floats from and to memory of any training dtype. Included once per Highway target.
#if defined(INGOT_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_LANES_INL_H
#undef INGOT_LANES_INL_H
#else
#define INGOT_LANES_INL_H
#endif

#include <cstdint>
#include <type_traits>

#include <hwy/highway.h>

#include "ingot/core/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

// `d`: any tag of floats, of a whole register or of one lane.
template <class Tag>
inline hn::Vec<Tag> load_lanes(Tag d, const float* p) {
  return hn::LoadU(d, p);
}
template <class Tag>
inline hn::Vec<Tag> load_lanes(Tag d, const bf16* p) {
  const hn::RebindToUnsigned<Tag> bits;
  const hn::Rebind<std::uint16_t, Tag> half;
  const auto words = hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, words)));
}
template <class Tag>
inline hn::Vec<Tag> load_lanes(Tag d, const f16* p) {
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2  // no F16C: Highway's own way loses NaN and infinity
  float values[hn::MaxLanes(Tag())];
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) values[i] = static_cast<float>(p[i]);
  return hn::LoadU(d, values);
#else
  const hn::Rebind<hwy::float16_t, Tag> half;
  return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p)));
#endif
}
template <class Tag>
inline hn::Vec<Tag> load_lanes(Tag d, const std::int8_t* p) {
  const hn::Rebind<std::int8_t, Tag> bytes;
  const hn::RebindToSigned<Tag> words;
  return hn::ConvertTo(d, hn::PromoteTo(words, hn::LoadU(bytes, p)));
}

template <class Tag>
inline void store_lanes(Tag d, hn::Vec<Tag> v, float* p) {
  hn::StoreU(v, d, p);
}
// Round to nearest even; NaN stays NaN. The bits of a bf16, in words of twice the size.
template <class Tag>
inline auto bf16_bits(Tag /*d*/, hn::Vec<Tag> v) {
  const hn::RebindToUnsigned<Tag> bits;
  const auto word = hn::BitCast(bits, v);
  const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(bits, 1U));
  const auto rounded = hn::ShiftRight<16>(hn::Add(word, hn::Add(odd, hn::Set(bits, 0x7fffU))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(word), hn::Set(bits, 0x40U));
  return hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(v)), quiet, rounded);
}
template <class Tag>
inline void store_lanes(Tag d, hn::Vec<Tag> v, bf16* p) {
  const hn::Rebind<std::uint16_t, Tag> half;
  hn::StoreU(hn::TruncateTo(half, bf16_bits(d, v)), half, reinterpret_cast<std::uint16_t*>(p));
}
template <class Tag>
inline void store_lanes(Tag d, hn::Vec<Tag> v, f16* p) {
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2  // no F16C: what Highway has instead cuts bits off
  float values[hn::MaxLanes(Tag())];
  hn::StoreU(v, d, values);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) p[i] = f16(values[i]);
#else
  static_cast<void>(d);
  const hn::Rebind<hwy::float16_t, Tag> half;
  hn::StoreU(hn::DemoteTo(half, v), half, reinterpret_cast<hwy::float16_t*>(p));
#endif
}

// v as memory of T would give it back.
template <class T, class Tag>
inline hn::Vec<Tag> rounded_lanes(Tag d, hn::Vec<Tag> v) {
  if constexpr (std::is_same_v<T, bf16>) {
    return hn::BitCast(d, hn::ShiftLeft<16>(bf16_bits(d, v)));
  } else if constexpr (std::is_same_v<T, f16>) {
    f16 values[hn::MaxLanes(Tag())];
    store_lanes(d, v, values);
    return load_lanes(d, values);
  } else {
    return v;
  }
}

// to = value, or to += value.
template <class Tag, class T>
inline void store_lanes(Tag d, hn::Vec<Tag> value, T* to, bool accumulate) {
  store_lanes(d, accumulate ? hn::Add(value, load_lanes(d, to)) : value, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
