// The words of base/rng.h's generator, a register of blocks at a time. Included once per SIMD target.
#if defined(INGOT_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_PHILOX_INL_H_
#undef INGOT_PHILOX_INL_H_
#else
#define INGOT_PHILOX_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

#include "ingot/base/rng.h"
#include "ingot/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
using DU = hn::RebindToUnsigned<D>;
using VU = hn::Vec<DU>;

// a·m as high and low words.
HWY_INLINE void multiply(VU a, VU m, VU& high, VU& low) {
  const DU du;
#if HWY_TARGET == HWY_SCALAR
  high = hn::Set(du, static_cast<std::uint32_t>((std::uint64_t{hn::GetLane(a)} * hn::GetLane(m)) >> 32));
#else
  const hn::RepartitionToWide<DU> dw;
  const auto even = hn::BitCast(du, hn::MulEven(a, m));
  const auto shifted = hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(dw, a)));
  const auto odd = hn::BitCast(du, hn::MulEven(shifted, m));
  high = hn::OddEven(odd, hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(dw, even))));
#endif
  low = hn::Mul(a, m);
}

// Words of blocks [block, block + Lanes), in stream order: 4·Lanes words at `to`.
HWY_INLINE void philox_blocks(RngKey key, std::uint64_t block, std::uint32_t* to) {
  const DU du;
  const auto base = static_cast<std::uint32_t>(block), upper = static_cast<std::uint32_t>(block >> 32);
  VU c0 = hn::Iota(du, base);
  VU c1 = hn::Set(du, upper);
  // Lanes past the wrap of the low word carry into the next: the mask is all ones, -1.
  c1 = hn::Sub(c1, hn::VecFromMask(du, hn::Lt(c0, hn::Set(du, base))));
  VU c2 = hn::Set(du, static_cast<std::uint32_t>(key.stream));
  VU c3 = hn::Set(du, static_cast<std::uint32_t>(key.stream >> 32));
  auto k0 = static_cast<std::uint32_t>(key.seed), k1 = static_cast<std::uint32_t>(key.seed >> 32);
  const VU m0 = hn::Set(du, 0xD2511F53U), m1 = hn::Set(du, 0xCD9E8D57U);
  for (int round = 0; round < 10; ++round) {
    VU h0, l0, h1, l1;
    multiply(c0, m0, h0, l0);
    multiply(c2, m1, h1, l1);
    c0 = hn::Xor(hn::Xor(h1, c1), hn::Set(du, k0));
    c2 = hn::Xor(hn::Xor(h0, c3), hn::Set(du, k1));
    c1 = l1;
    c3 = l0;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  hn::StoreInterleaved4(c0, c1, c2, c3, du, to);
}

HWY_INLINE V uniform_of(VU words) {
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(di, hn::ShiftRight<8>(words));
  return hn::Mul(hn::ConvertTo(D(), bits), set(0x1.0p-24F));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
