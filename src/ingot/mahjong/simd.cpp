#include "ingot/mahjong/simd.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/mahjong/simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ingot::mahjong::simd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;

// LoadMaskBits reads at most eight bytes here.
template <class D>
HWY_INLINE hn::Mask<D> mask_of(D d, std::uint64_t bits) {
  std::uint8_t bytes[8];
  std::memcpy(bytes, &bits, sizeof bytes);
  return hn::LoadMaskBits(d, bytes);
}

HWY_INLINE void write_row(std::uint64_t key, bool fill, float* out) {
  const Floats d;
  const std::uint64_t set = fill ? ~std::uint64_t{0} : key;
  const std::uint32_t bits = fill ? static_cast<std::uint32_t>(key) : 0x3F800000U;  // 1.0F
  float value;
  std::memcpy(&value, &bits, sizeof value);
  const auto values = hn::Set(d, value);
  for (std::size_t i = 0; i < 32; i += hn::Lanes(d))
    hn::StoreU(hn::IfThenElseZero(mask_of(d, set >> i), values), d, out + i);
  out[32] = (set >> 32 & 1) != 0 ? value : 0.0F;
  out[33] = (set >> 33 & 1) != 0 ? value : 0.0F;
}

void write_rows(const std::uint64_t* keys, const RowType* types, std::size_t count, float* out) {
  for (std::size_t row = 0; row < count; ++row)
    write_row(keys[row], types[row] == RowType::Fill, out + row * kKinds);
}

void write_some_rows(const std::uint64_t* keys, const RowType* types, const std::uint64_t* which,
                     std::size_t words, float* out) {
  for (std::size_t word = 0; word < words; ++word)
    for (std::uint64_t rest = which[word]; rest != 0; rest &= rest - 1) {
      const std::size_t row = 64 * word + static_cast<std::size_t>(__builtin_ctzll(rest));
      write_row(keys[row], types[row] == RowType::Fill, out + row * kKinds);
    }
}

void take_keys(std::uint64_t* keys, std::uint64_t* old_keys, std::size_t count, std::uint64_t* differ) {
  const hn::CappedTag<std::uint64_t, 8> d;
  for (std::size_t i = 0; i < count; i += 8) {
    std::uint64_t eight = 0;
    for (std::size_t k = 0; k < 8; k += hn::Lanes(d)) {
      const auto now = hn::LoadU(d, keys + i + k), before = hn::LoadU(d, old_keys + i + k);
      hn::StoreU(now, d, old_keys + i + k);
      hn::StoreU(hn::Zero(d), d, keys + i + k);
      std::uint8_t bits[8] = {};
      hn::StoreMaskBits(d, hn::Ne(now, before), bits);
      eight |= std::uint64_t{bits[0]} << k;
    }
    differ[i / 64] |= eight << i % 64;
  }
}

Action* push_kinds(KindSet kinds, const Action* table, Action* out) {
#if HWY_TARGET <= HWY_AVX2
  static_assert(sizeof(Action) == sizeof(std::uint32_t));
  const hn::CappedTag<std::uint32_t, 16> d;
  const auto* from = reinterpret_cast<const std::uint32_t*>(table);
  for (std::size_t i = 0; i < kPaddedKinds; i += hn::Lanes(d)) {
    const std::uint64_t part = kinds >> i & ((std::uint64_t{1} << hn::Lanes(d)) - 1);
    // Not CompressStore: writing a compressed register straight to memory is slow on some processors.
    hn::StoreU(hn::Compress(hn::LoadU(d, from + i), mask_of(d, part)), d,
               reinterpret_cast<std::uint32_t*>(out));
    out += hwy::PopCount(part);
  }
  return out;
#else
  for_each_kind(kinds, [&](Kind kind) { *out++ = table[kind]; });
  return out;
#endif
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::mahjong::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::mahjong::simd {

HWY_EXPORT(write_rows);
HWY_EXPORT(write_some_rows);
HWY_EXPORT(take_keys);
HWY_EXPORT(push_kinds);

void write_rows(const std::uint64_t* keys, const RowType* types, std::size_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(write_rows)(keys, types, count, out);
}
void write_some_rows(const std::uint64_t* keys, const RowType* types, std::span<const std::uint64_t> which,
                     float* out) {
  HWY_DYNAMIC_DISPATCH(write_some_rows)(keys, types, which.data(), which.size(), out);
}
void take_keys(std::span<std::uint64_t> keys, std::span<std::uint64_t> old_keys,
               std::span<std::uint64_t> differ) {
  std::fill(differ.begin(), differ.end(), 0);
  HWY_DYNAMIC_DISPATCH(take_keys)(keys.data(), old_keys.data(), keys.size(), differ.data());
}
Action* push_kinds(KindSet kinds, const Action* table, Action* out) {
  return HWY_DYNAMIC_DISPATCH(push_kinds)(kinds, table, out);
}

}  // namespace ingot::mahjong::simd
#endif
