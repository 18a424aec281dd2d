#include "ingot/mahjong/simd.h"

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

HWY_INLINE void write_row(std::uint64_t key, RowType type, float* out) {
  // Not a branch: which rows change is hard to guess.
  const std::uint64_t fill = -static_cast<std::uint64_t>(type == RowType::Fill);
  const std::uint64_t set = key | fill;
  const auto bits = static_cast<std::uint32_t>((key & fill) | (0x3F800000U & ~fill));  // 1.0F
  float value;
  std::memcpy(&value, &bits, sizeof value);
  const Floats d;
  const auto values = hn::Set(d, value);
  for (std::size_t i = 0; i < 32; i += hn::Lanes(d))
    hn::StoreU(hn::IfThenElseZero(mask_of(d, set >> i), values), d, out + i);
  out[32] = (set >> 32 & 1) != 0 ? value : 0.0F;
  out[33] = (set >> 33 & 1) != 0 ? value : 0.0F;
}

// Eight rows of sets, which are 272 bits on end: seventeen registers of sixteen floats, without the two
// floats over that each row has by itself.
HWY_INLINE void write_eight_sets(const std::uint64_t* keys, float* out) {
  static_assert(8 * kKinds == 4 * 64 + 16);
  const std::uint64_t words[5] = {keys[0] | keys[1] << 34, keys[1] >> 30 | keys[2] << 4 | keys[3] << 38,
                                  keys[3] >> 26 | keys[4] << 8 | keys[5] << 42,
                                  keys[5] >> 22 | keys[6] << 12 | keys[7] << 46, keys[7] >> 18};
  const Floats d;
  const auto ones = hn::Set(d, 1.0F);
  for (std::size_t i = 0; i < 8 * kKinds; i += hn::Lanes(d))
    hn::StoreU(hn::IfThenElseZero(mask_of(d, words[i / 64] >> i % 64), ones), d, out + i);
}

void write_rows(const std::uint64_t* keys, const RowType* types, std::size_t count, float* out) {
  constexpr RowType kEightSets[8] = {};
  static_assert(kEightSets[0] == RowType::Set);
  for (std::size_t row = 0; row < count;) {
    if (row + 8 <= count && std::memcmp(types + row, kEightSets, sizeof kEightSets) == 0) {
      write_eight_sets(keys + row, out + row * kKinds);
      row += 8;
    } else {
      write_row(keys[row], types[row], out + row * kKinds);
      ++row;
    }
  }
}

void write_some_rows(const std::uint64_t* keys, const RowType* types, const std::uint64_t* which,
                     std::size_t words, float* out) {
  for (std::size_t word = 0; word < words; ++word)
    for (std::uint64_t rest = which[word]; rest != 0; rest &= rest - 1) {
      const std::size_t row = 64 * word + static_cast<std::size_t>(__builtin_ctzll(rest));
      write_row(keys[row], types[row], out + row * kKinds);
    }
}

// Bit i: keys[i] and before[i] differ, of eight.
HWY_INLINE std::uint64_t find_eight_changes(const std::uint64_t* keys, const std::uint64_t* before) {
  const hn::CappedTag<std::uint64_t, 8> d;
  std::uint64_t changes = 0;
  for (std::size_t i = 0; i < 8; i += hn::Lanes(d)) {
    std::uint8_t bits[8] = {};
    hn::StoreMaskBits(d, hn::Ne(hn::LoadU(d, keys + i), hn::LoadU(d, before + i)), bits);
    changes |= std::uint64_t{bits[0]} << i;
  }
  return changes;
}

void find_changes(const std::uint64_t* keys, const std::uint64_t* before, std::size_t count,
                  std::uint64_t* differ) {
  for (std::size_t word = 0; 64 * word < count; ++word) {
    std::uint64_t changes = 0;
    for (std::size_t i = 64 * word; i < count && i < 64 * word + 64; i += 8)
      changes |= find_eight_changes(keys + i, before + i) << i % 64;
    differ[word] = changes;
  }
}

template <class D, class Ages>
HWY_INLINE hn::Vec<D> look_up(D d, const float* values, Ages ages) {
  if constexpr (hn::MaxLanes(d) == 16) {
    const hn::RebindToSigned<D> as_ints;
    const auto index = hn::IndicesFromVec(d, hn::And(ages, hn::Set(as_ints, 15)));
    const auto young = hn::TableLookupLanes(hn::LoadU(d, values), index);
    const auto old = hn::TableLookupLanes(hn::LoadU(d, values + 16), index);
    return hn::IfThenElse(hn::RebindMask(d, hn::Gt(ages, hn::Set(as_ints, 15))), old, young);
  } else {
    return hn::GatherIndex(d, values, ages);
  }
}

void write_decay_row(KindSet kinds, const std::uint8_t* turn, unsigned now, const float* values, float* out) {
  const Floats d;
  const hn::Rebind<std::int32_t, Floats> as_ints;
  const hn::Rebind<std::uint8_t, Floats> as_bytes;
  // What stands for kinds not in the set may be anything, and must not be looked up out of the table.
  constexpr std::int32_t kLast = kDecayAges - 1;
  for (std::size_t i = 0; i < 32; i += hn::Lanes(d)) {
    const auto turns = hn::PromoteTo(as_ints, hn::LoadU(as_bytes, turn + i));
    const auto ages =
        hn::Max(hn::Sub(hn::Set(as_ints, static_cast<std::int32_t>(now)), turns), hn::Zero(as_ints));
    const auto decays = look_up(d, values, hn::Min(ages, hn::Set(as_ints, kLast)));
    hn::StoreU(hn::IfThenElseZero(mask_of(d, kinds >> i), decays), d, out + i);
  }
  for (std::size_t i = 32; i < kKinds; ++i)
    out[i] = (kinds >> i & 1) != 0 ? values[HWY_MIN(now - turn[i], static_cast<unsigned>(kLast))] : 0.0F;
}

Action* push_tiles(std::uint64_t tiles, const Action* table, Action* out) {
#if HWY_TARGET <= HWY_AVX3  // without AVX-512, compressing takes three times the instructions of the loop
  static_assert(sizeof(Action) == sizeof(std::uint32_t));
  const hn::CappedTag<std::uint32_t, 16> d;
  const auto* from = reinterpret_cast<const std::uint32_t*>(table);
  for (std::size_t i = 0; i < kPaddedTiles; i += hn::Lanes(d)) {
    const std::uint64_t part = tiles >> i & ((std::uint64_t{1} << hn::Lanes(d)) - 1);
    // Not CompressStore: writing a compressed register straight to memory is slow on some processors.
    hn::StoreU(hn::Compress(hn::LoadU(d, from + i), mask_of(d, part)), d,
               reinterpret_cast<std::uint32_t*>(out));
    out += hwy::PopCount(part);
  }
  return out;
#else
  for_each_kind(tiles, [&](Tile tile) { *out++ = table[tile]; });
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
HWY_EXPORT(find_changes);
HWY_EXPORT(write_decay_row);
HWY_EXPORT(push_tiles);

void write_rows(const std::uint64_t* keys, const RowType* types, std::size_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(write_rows)(keys, types, count, out);
}
void write_some_rows(const std::uint64_t* keys, const RowType* types, std::span<const std::uint64_t> which,
                     float* out) {
  HWY_DYNAMIC_DISPATCH(write_some_rows)(keys, types, which.data(), which.size(), out);
}
void find_changes(std::span<const std::uint64_t> keys, std::span<const std::uint64_t> before,
                  std::span<std::uint64_t> differ) {
  HWY_DYNAMIC_DISPATCH(find_changes)(keys.data(), before.data(), keys.size(), differ.data());
}
void write_decay_row(KindSet kinds, const std::array<std::uint8_t, kKinds>& turn, unsigned now,
                     const float* values, float* out) {
  HWY_DYNAMIC_DISPATCH(write_decay_row)(kinds, turn.data(), now, values, out);
}
Action* push_tiles(std::uint64_t tiles, const Action* table, Action* out) {
  return HWY_DYNAMIC_DISPATCH(push_tiles)(tiles, table, out);
}

}  // namespace ingot::mahjong::simd
#endif
